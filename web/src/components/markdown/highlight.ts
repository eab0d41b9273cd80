// Syntax highlighting for the languages that answers mostly contain. highlight.js escapes the code and only adds classes,
// so its HTML is safe to insert.
import hljs from "highlight.js/lib/core"
import bash from "highlight.js/lib/languages/bash"
import c from "highlight.js/lib/languages/c"
import cpp from "highlight.js/lib/languages/cpp"
import csharp from "highlight.js/lib/languages/csharp"
import css from "highlight.js/lib/languages/css"
import diff from "highlight.js/lib/languages/diff"
import go from "highlight.js/lib/languages/go"
import ini from "highlight.js/lib/languages/ini"
import java from "highlight.js/lib/languages/java"
import javascript from "highlight.js/lib/languages/javascript"
import json from "highlight.js/lib/languages/json"
import markdown from "highlight.js/lib/languages/markdown"
import php from "highlight.js/lib/languages/php"
import python from "highlight.js/lib/languages/python"
import ruby from "highlight.js/lib/languages/ruby"
import rust from "highlight.js/lib/languages/rust"
import sql from "highlight.js/lib/languages/sql"
import typescript from "highlight.js/lib/languages/typescript"
import xml from "highlight.js/lib/languages/xml"
import yaml from "highlight.js/lib/languages/yaml"

const languages = { bash, c, cpp, csharp, css, diff, go, ini, java, javascript, json, markdown, php, python, ruby, rust, sql, typescript, xml, yaml }
for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language)

/** Return each line of the code as HTML, or null if the language is not known. */
export function highlightLines(text: string, language: string): string[] | null {
  return hljs.getLanguage(language) ? splitLines(hljs.highlight(text, { language, ignoreIllegals: true }).value) : null
}

/** Split highlighted code into lines: an element that goes on in the next line, such as a long string, is opened anew there. */
function splitLines(html: string): string[] {
  let opened: string[] = []
  return html.split("\n").map((line) => {
    const before = opened.join("")
    for (const [tag] of line.matchAll(/<[^>]*>/g)) opened = tag === "</span>" ? opened.slice(0, -1) : [...opened, tag]
    return `${before}${line}${"</span>".repeat(opened.length)}`
  })
}
