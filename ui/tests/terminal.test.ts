import { expect, test } from "vitest"
import { readEnd, terminalUrl } from "@/lib/terminal"

test("a terminal is on the origin of the page", () => {
  const page = new URL("https://muster.example/jobs/x?y#z")
  expect(terminalUrl({ namespace: "user-ann", pod: "a/b" }, page)).toBe(
    "wss://muster.example/api/v1/pods/user-ann/a%2Fb/terminal",
  )
  expect(terminalUrl({ namespace: "n", pod: "p", container: "main" }, new URL("http://localhost:8265/"))).toBe(
    "ws://localhost:8265/api/v1/pods/n/p/terminal?container=main",
  )
})

test("the last message says how the shell ended", () => {
  expect(readEnd('{"exit":3}')).toEqual({ exit: 3 })
  expect(readEnd('{"error":"gone"}')).toEqual({ error: "gone" })
  expect(readEnd("x")).toBeUndefined()
  expect(readEnd("3")).toBeUndefined()
})
