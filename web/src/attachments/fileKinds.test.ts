import { expect, test } from "vitest"
import { detectKind } from "./fileKinds"

const encode = (text: string) => new TextEncoder().encode(text)

test("a file is what its bytes are", () => {
  expect(detectKind("a.png", Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 1))).toBe("image")
  expect(detectKind("a.webp", encode("RIFF1234WEBPVP8"))).toBe("image")
  expect(detectKind("a.txt", encode("%PDF-1.7"))).toBe("pdf")
  expect(detectKind("a.docx", encode("PK\x03\x04rest"))).toBe("document")
  expect(detectKind("page.HTML", encode("<p>hi</p>"))).toBe("document")
  expect(detectKind("table.csv", encode("a,b\nä,ü"))).toBe("text")
  expect(detectKind("a.png", Uint8Array.of(0, 0xff, 1))).toBe("unreadable")
  expect(detectKind("a.bin", encode("a\0b"))).toBe("unreadable")
  expect(detectKind("prices.csv", Uint8Array.of(0x4b, 0xe4, 0x73, 0x65))).toBe("encoding") // as Excel saves "Käse" without UTF-8
  expect(detectKind("a.txt", new Uint8Array())).toBe("empty")
})
