import { expect, test } from "vitest"
import { newerOf } from "@/lib/newer-run"

const loaded = (revision: number, state: string) => ({ revision, state, may: ["stop"] })

test.each([
  ["a response that an event has overtaken", loaded(3, "stopping"), { revision: 4, state: "stopped" }, "stopped"],
  ["an event that a response has overtaken", loaded(4, "stopping"), { revision: 3, state: "running" }, "stopping"],
  ["nodes that changed without a revision", loaded(4, "running"), { revision: 4, state: "new nodes" }, "new nodes"],
  ["no event yet", loaded(4, "running"), undefined, "running"],
])("%s", (_, whole, event, state) => {
  expect(newerOf(whole, event)).toMatchObject({ state, may: ["stop"] })
})
