/** Changes and events that overtake responses. */
import { QueryObserver } from "@tanstack/react-query"
import { afterEach, expect, test } from "vitest"
import { queryClient, reload, showEvent } from "@/api/client"

/** A page that shows `key`. The server's answers are given one by one. */
function openPage(key: string[]) {
  const answers: ((value: string) => void)[] = []
  const queryFn = () => new Promise<string>((resolve) => answers.push(resolve))
  const observer = new QueryObserver(queryClient, { queryKey: key, queryFn, retry: false })
  const close = observer.subscribe(() => {})
  return {
    shown: () => observer.getCurrentResult().data,
    requests: () => answers.length,
    answer: async (value: string) => {
      answers.at(-1)?.(value)
      await new Promise((resolve) => setTimeout(resolve))
    },
    close,
  }
}

afterEach(() => queryClient.clear())

test("an event before the first response loads again after it", async () => {
  const page = openPage(["runs", "one"])
  void reload(["runs"])
  void reload(["runs"])
  await page.answer("running")
  expect(page.shown()).toBe("running")
  expect(page.requests()).toBe(2)
  await page.answer("succeeded")
  expect(page.shown()).toBe("succeeded")
  expect(page.requests()).toBe(2)
  page.close()
})

test("more events than responses do not keep the page from being up to date", async () => {
  const page = openPage(["runs", "one"])
  await page.answer("0 of 3")
  void reload(["runs"])
  void reload(["runs"])
  await page.answer("1 of 3")
  expect(page.shown()).toBe("1 of 3")
  await page.answer("2 of 3")
  expect(page.shown()).toBe("2 of 3")
  page.close()
})

test("a response that is older than an event is not shown", async () => {
  const page = openPage(["runs", "one"])
  showEvent(["runs", "one"], "succeeded")
  await page.answer("running")
  expect(page.shown()).toBe("succeeded")
  page.close()
})

test("what is not on the screen is loaded when it is shown again", async () => {
  const page = openPage(["runs", "one"])
  await page.answer("running")
  page.close()
  await reload(["runs"])
  expect(page.requests()).toBe(1)
  expect(queryClient.getQueryState(["runs", "one"])?.isInvalidated).toBe(true)
})
