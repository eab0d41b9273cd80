// Which URLs the page may use. It loads only images that are inline: an image of another origin would tell that origin
// who reads the answer. Everything else is a link that the user may follow.
export function isInlineImage(url: string): boolean {
  return /^data:image\/(?:png|jpe?g|gif|webp|avif);base64,/i.test(url)
}

export function isWebLink(text: string): boolean {
  return /^https?:\/\/\S+$/i.test(text) && URL.canParse(text)
}
