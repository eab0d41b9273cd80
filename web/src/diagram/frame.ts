// Draws one diagram, in a document of its own. Its frame is sandboxed and so has an origin of its own: it reaches neither the
// page nor the server's data, and its Content-Security-Policy lets it load nothing but this script. Mermaid needs styles in
// elements, which the page itself forbids.
import mermaid from "mermaid"
import { isInlineImage } from "../components/urls"
import type { DiagramReply, DiagramRequest } from "./messages"

const MAX_EDGES = 400
const FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
/** The colours of the page, as in style/base.css: the frame does not have its variables. */
const LIGHT = { ...colour("#e2f1ee", "#0f6b63"), primaryTextColor: "#24211c", textColor: "#24211c", lineColor: "#5f5a50", secondaryColor: "#ece8e0", tertiaryColor: "#fdf1dc", edgeLabelBackground: "#f4f2ee" }
const DARK = { ...colour("#19302d", "#5fcabd"), darkMode: true, background: "#171614", primaryTextColor: "#ebe8e2", textColor: "#ebe8e2", lineColor: "#b3aea4", secondaryColor: "#2b2925", tertiaryColor: "#2f2616", edgeLabelBackground: "#262522" }

function colour(fill: string, border: string): Record<string, string> {
  return { primaryColor: fill, primaryBorderColor: border, mainBkg: fill, nodeBorder: border, actorBorder: border, noteBkgColor: fill, noteBorderColor: border }
}

/** The layout of every diagram. The other one, ELK, would double the size of this script and is left out of it. */
const LAYOUT = "dagre"
/** Settings that a diagram must not change by its own directives. */
const SECURE = ["secure", "securityLevel", "startOnLoad", "maxTextSize", "maxEdges", "suppressErrorRendering", "dompurifyConfig", "themeCSS", "fontFamily", "altFontFamily", "layout"]

addEventListener("message", (event: MessageEvent<DiagramRequest>) => {
  const port = event.ports[0]
  if (event.source !== parent || !port) return
  const reply = (message: DiagramReply) => port.postMessage(message)
  draw(event.data).then(
    (svg) => {
      const tellHeight = () => reply({ drawn: true, height: Math.ceil(svg.getBoundingClientRect().height) })
      // At once, as nothing is observed in a frame that is not shown yet. Later the width changes with that of the window.
      tellHeight()
      new ResizeObserver(tellHeight).observe(svg)
    },
    () => reply({ drawn: false }),
  )
})

async function draw({ source, dark }: DiagramRequest): Promise<SVGSVGElement> {
  // A frame whose colours differ from those of the page gets a background, so both must be the same.
  document.documentElement.style.colorScheme = dark ? "dark" : "light"
  mermaid.initialize({
    startOnLoad: false,
    securityLevel: "strict",
    suppressErrorRendering: true,
    theme: "base",
    themeVariables: dark ? DARK : LIGHT,
    fontFamily: FONTS,
    maxEdges: MAX_EDGES,
    layout: LAYOUT,
    secure: SECURE,
  })
  const { svg } = await mermaid.render("diagram", source)
  document.body.innerHTML = svg
  // A link could only lead this frame away from the diagram, and images of other origins are not loaded.
  for (const link of document.querySelectorAll("a")) for (const name of ["href", "xlink:href", "target"]) link.removeAttribute(name)
  for (const image of document.querySelectorAll("img, image")) if (!isInlineImage(image.getAttribute("src") ?? image.getAttribute("href") ?? "")) image.remove()
  return document.body.querySelector("svg")!
}
