// Reading and changing settings. Each change names the version that the user has seen, so that no newer one is lost.
import { HttpError, request } from "../../wire/http"
import type { SettingAnswer, SettingEntry, SettingList } from "../../wire/types"
import { useQuery, type Query } from "../../wire/useQuery"

export function useSettings(): Query<SettingList> {
  return useQuery<SettingList>("settings")
}

/** Return the headers for a change of what had this version; an empty one stands for nothing stored. */
export function buildVersionHeaders(version: string): Record<string, string> {
  return version ? { "if-match": `"${version}"` } : { "if-none-match": "*" }
}

export async function saveEntry(kind: string, name: string, value: unknown, version: string): Promise<SettingEntry> {
  const response = await request("PUT", buildPath(kind, name), { value }, { headers: buildVersionHeaders(version) })
  return ((await response.json()) as SettingAnswer).setting
}

export async function deleteEntry({ kind, name, version }: Pick<SettingEntry, "kind" | "name" | "version">): Promise<void> {
  await request("DELETE", buildPath(kind, name), undefined, { headers: buildVersionHeaders(version) })
}

/** Return what somebody else has stored meanwhile, null if they deleted it, or undefined if the error is another one. */
export function findNewer<T>(error: unknown): T | null | undefined {
  if (!(error instanceof HttpError) || error.status !== 412) return undefined
  return (error.body.details["current"] ?? null) as T | null
}

function buildPath(kind: string, name: string): string {
  // The names of models may hold slashes, which are part of the path.
  return `settings/${kind}/${name.split("/").map(encodeURIComponent).join("/")}`
}
