// Which addresses the page may load by itself: only what came along inline. Everything else is a link to follow.
export function isInline(url: string): boolean {
  return /^data:image\/(?:png|jpe?g|gif|webp|avif);base64,/i.test(url)
}

export function isLink(text: string): boolean {
  return /^https?:\/\/\S+$/i.test(text) && URL.canParse(text)
}
