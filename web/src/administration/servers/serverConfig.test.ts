import { expect, test } from "vitest"
import { findAddable, parseMcpJson, readSignInAnswer, toTrialConfig } from "./serverConfig"

test("commands are added where the settings say so, else only while there are no keys", () => {
  const fixed = [{ name: "add_servers", value: '"off"', location: "toolyard.toml:3", note: "" }]
  expect([findAddable(fixed, true), findAddable([], true), findAddable([], false)]).toEqual(["off", "all", "url"])
})

test("an mcp.json has its servers by name or in a list, and disabled ones are left out", () => {
  expect(parseMcpJson('{"mcpServers": {"a": {"url": "http://x"}, "b": {"url": "http://y", "disabled": true}}}')).toEqual({ a: { url: "http://x" } })
  expect(parseMcpJson('{"servers": [{"name": "c", "command": "npx"}]}')).toEqual({ c: { name: "c", command: "npx" } })
  expect(parseMcpJson("null")).toEqual({})
  expect(() => parseMcpJson("{")).toThrow()
})

test("a trial gets only what is needed to connect", () => {
  expect(toTrialConfig({ name: "c", command: "npx", type: "stdio" })).toEqual({ command: "npx" })
})

test("the answer of a sign-in is read from its address, and that of another one is not", () => {
  expect(readSignInAnswer(" http://127.0.0.1:9/callback?code=1&state=abc&other=2 ", "abc")).toEqual({ code: "1", state: "abc" })
  expect([readSignInAnswer("http://127.0.0.1:9/callback?code=1&state=x", "abc"), readSignInAnswer("nothing", "abc")]).toEqual([null, null])
})
