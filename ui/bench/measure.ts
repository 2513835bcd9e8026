import type { CDPSession, Page } from "@playwright/test"

export const url = (path = "") => `${process.env.MUSTER_URL}${path}`

export async function csrf(page: Page): Promise<string> {
  return (await page.context().cookies()).find((cookie) => cookie.name === "muster_csrf")?.value as string
}

export async function post(page: Page, path: string, data: unknown): Promise<Record<string, string>> {
  const response = await page.request.post(url(`/api/v1/${path}`), {
    data,
    headers: { "X-CSRF-Token": await csrf(page) },
  })
  if (!response.ok()) throw new Error(await response.text())
  return (await response.json()) as Record<string, string>
}

const meters = new WeakMap<Page, Promise<CDPSession>>()

async function started(page: Page): Promise<CDPSession> {
  const session = await page.context().newCDPSession(page)
  await session.send("Performance.enable", { timeDomain: "threadTicks" })
  return session
}

/** Milliseconds of work of the page's main thread since the first call, independent of the load of the machine. */
export async function busy(page: Page): Promise<number> {
  const meter = meters.get(page) ?? started(page)
  meters.set(page, meter)
  const { metrics } = await (await meter).send("Performance.getMetrics")
  return (metrics.find(({ name }) => name === "TaskDuration")?.value ?? 0) * 1000
}

export interface Frames {
  rate: number
  worst: number
  /** Milliseconds of work for one frame. */
  each: number
}

export function told(what: string, { rate, worst, each }: Frames): void {
  console.log(
    `  ${what.padEnd(20)} ${rate.toFixed(0).padStart(3)} frames/s, longest ${worst.toFixed(0)} ms, work ${each.toFixed(1)} ms each`,
  )
}

/** Starts again at 0 if the page has got another process since. */
export async function since(page: Page, before: number): Promise<number> {
  const now = await busy(page)
  return now < before ? now : now - before
}

/** Frames per second while `work` was done, and the longest time between two frames. */
export async function frames(page: Page, work: () => Promise<unknown>): Promise<Frames> {
  const before = await busy(page)
  await page.evaluate(() => {
    const seen: number[] = []
    const state = { seen, on: true }
    ;(window as unknown as { frames: typeof state }).frames = state
    const next = (at: number) => {
      seen.push(at)
      if (state.on) requestAnimationFrame(next)
    }
    requestAnimationFrame(next)
  })
  await work()
  const seen = await page.evaluate(() => {
    const state = (window as unknown as { frames: { seen: number[]; on: boolean } }).frames
    state.on = false
    return state.seen
  })
  const gaps = seen.slice(1).map((at, index) => at - (seen[index] as number))
  const whole = gaps.reduce((sum, gap) => sum + gap, 0)
  return {
    rate: whole ? (gaps.length * 1000) / whole : 0,
    worst: Math.max(0, ...gaps),
    each: (await since(page, before)) / Math.max(1, gaps.length),
  }
}
