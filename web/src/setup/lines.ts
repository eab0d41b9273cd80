// The lines that configure a model. Keys are placeholders: the page never asks for one.
import type { ProviderSetup } from "../wire/types"

const KEY_PLACEHOLDER = "YOUR_KEY"

function nameModel(provider: ProviderSetup, model: string): string {
  return `${provider.name}:${model.trim() || "MODEL"}`
}

export function buildShellLines(provider: ProviderSetup, model: string): string {
  const key = provider.key_variable ? [`export ${provider.key_variable}=${KEY_PLACEHOLDER}`] : []
  return [...key, `toolyard serve --model ${nameModel(provider, model)}`].join("\n")
}

export function buildFileLines(provider: ProviderSetup, model: string): string {
  const key = provider.key_variable ? ["", `[providers.${provider.name}]`, `api_key = "${KEY_PLACEHOLDER}"`] : []
  return [`model = ${JSON.stringify(nameModel(provider, model))}`, ...key].join("\n")
}
