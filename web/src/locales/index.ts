// What the page says, in the visitor's language. English is the reference; a missing word does not compile.
import { createContext, useContext } from "react"
import { en, type Word } from "./en"
import { zh } from "./zh"

export type Language = "en" | "zh"
export type { Word }
export type Say = (word: Word, values?: Record<string, string | number>) => string

const dictionaries: Record<Language, Record<Word, string>> = { en, zh }

export function sayIn(language: Language): Say {
  return (word, values) => dictionaries[language][word].replace(/\{(\w+)\}/g, (whole, name: string) => String(values?.[name] ?? whole))
}

export function preferred(): Language {
  const kept = localStorage.getItem("toolyard.language")
  if (kept === "en" || kept === "zh") return kept
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en"
}

export const Words = createContext<{ language: Language; say: Say }>({ language: "en", say: sayIn("en") })

export function useSay(): Say {
  return useContext(Words).say
}

export function useLanguage(): Language {
  return useContext(Words).language
}
