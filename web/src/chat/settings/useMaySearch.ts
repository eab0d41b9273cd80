import { useModels } from "../../state/models"
import { useTools } from "../../state/tools"

const SEARCH_TOOL = "web_search"

/** Return whether a search of the web can run: at the provider of the model, or as a tool of this server. */
export function useMaySearch(model: string): boolean {
  const models = useModels()
  const tools = useTools()
  const card = models?.models.find(({ id, default: isDefault }) => (model ? id === model : isDefault))
  return (card?.native_tools.includes(SEARCH_TOOL) ?? false) || [...tools.keys()].some((name) => name === SEARCH_TOOL || name.endsWith(`_${SEARCH_TOOL}`))
}
