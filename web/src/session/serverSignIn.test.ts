import { expect, test } from "vitest"
import { findReturnAddress } from "./serverSignIn"

test.each([
  ["http://127.0.0.1:8080/", "http://127.0.0.1:8080/"],
  ["http://localhost:8080/#/servers", "http://localhost:8080/"],
  ["https://yard.example/", null],
  ["http://yard.example:8080/", null],
  ["http://127.0.0.1/", null],
])("from %s a sign-in leads back to %s", (address, expected) => {
  expect(findReturnAddress(new URL(address))).toBe(expected)
})
