import { expect, test } from "vitest"
import { findSignInError } from "./providerSignIn"

test("a code has its own text, and anything else the general one", () => {
  expect(findSignInError("")).toBeUndefined()
  expect(findSignInError("?other=1")).toBeUndefined()
  expect(findSignInError("?sign_in_error=no_access")).toBe("signin.error.noAccess")
  expect(findSignInError("?sign_in_error=<b>call 555</b>")).toBe("signin.error.failed")
  expect(findSignInError("?sign_in_error=constructor")).toBe("signin.error.failed")
})
