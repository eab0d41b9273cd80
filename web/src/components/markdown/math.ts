// Formulas as MathML, which browsers draw themselves: no fonts are loaded, and the Content-Security-Policy, which forbids
// styles in elements, stays as it is. What KaTeX makes of a model's text is sanitized like everything else.
import createDOMPurify from "dompurify"
import katex from "katex"

/** Formulas of one block. A text of thousands would block the page; those beyond stay as they were written. */
const MAX_FORMULAS = 200
const purify = createDOMPurify(window)

/** Return the HTML with MathML in place of the formulas, which are `<var>` elements. One with an error stays as it is. */
export function renderFormulas(html: string): string {
  const template = document.createElement("template")
  template.innerHTML = html
  for (const element of [...template.content.querySelectorAll("var")].slice(0, MAX_FORMULAS)) {
    const mathml = toMathml(element.textContent ?? "")
    if (mathml) element.innerHTML = mathml
  }
  return template.innerHTML
}

/** Links, images and HTML in a formula make it an error, so that its source is shown instead of a part of it. */
function refuse(): boolean {
  throw new Error("a formula may not do this")
}

/** Return a formula, with its delimiters, as MathML, or an empty text if it is none. */
function toMathml(source: string): string {
  const width = source.startsWith("$") && !source.startsWith("$$") ? 1 : 2
  const displayMode = source.startsWith("$$") || source.startsWith("\\[")
  try {
    const limits = { maxExpand: 200, maxSize: 10 } // against formulas that grow without end, and rules that cover the page
    const rendered = katex.renderToString(source.slice(width, -width), { output: "mathml", displayMode, throwOnError: true, strict: "ignore", trust: refuse, ...limits })
    const template = document.createElement("template")
    template.innerHTML = rendered
    // The source beside the formula would be shown as text once its element is not allowed.
    for (const annotation of template.content.querySelectorAll("annotation")) annotation.remove()
    return purify.sanitize(template.innerHTML, { USE_PROFILES: { mathMl: true }, FORBID_ATTR: ["style", "class", "id", "href", "xlink:href"], ALLOW_DATA_ATTR: false })
  } catch {
    return ""
  }
}
