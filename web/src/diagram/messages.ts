// The messages between the page and the frame that draws a diagram. The page sends the request with a port, and the frame
// replies on that port only.

export interface DiagramRequest {
  source: string
  dark: boolean
}

/** The height in pixels that the diagram needs, sent again when it changes. A diagram that cannot be drawn has none. */
export type DiagramReply = { drawn: true; height: number } | { drawn: false }
