/** Queries that follow the server by server-sent events. */
import type { QueryKey } from "@tanstack/react-query"
import { useEffect, useEffectEvent, useState } from "react"
import { queryClient, reload, showEvent } from "./client"

const GATHER_MS = 500

interface ListPage<T> {
  items: T[]
}

interface ListEvent<T> {
  /** The name of the events that say how one thing is now. */
  name: string
  isSame: (a: T, b: Partial<T>) => boolean
  /** What of the event is in lists; all of it if left out. */
  pick?: (said: Partial<T>) => Partial<T>
}

/** Keeps lists up to date: what changes is replaced where it is shown, and the lists are loaded again a moment later. */
export function useLiveList<T>(events: string, key: QueryKey, of?: ListEvent<T>): void {
  const replace = useEffectEvent((said: Partial<T>) => {
    if (!of) return
    const changed = of.pick?.(said) ?? said
    queryClient.setQueriesData<ListPage<T>>({ queryKey: key }, (page) =>
      page?.items.some((each) => of.isSame(each, changed))
        ? { ...page, items: page.items.map((each) => (of.isSame(each, changed) ? { ...each, ...changed } : each)) }
        : page,
    )
  })
  const load = useEffectEvent(() => void reload(key))
  const name = of?.name
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const reloadSoon = () => {
      timer ??= setTimeout(() => {
        timer = undefined
        load()
      }, GATHER_MS)
    }
    const source = new EventSource(events)
    for (const each of ["reset", "gone", "changed"]) source.addEventListener(each, reloadSoon)
    if (name)
      source.addEventListener(name, (event) => {
        replace(JSON.parse(event.data as string) as Partial<T>)
        reloadSoon() // it may be new, or belong to other lists now, or allow other actions
      })
    return () => {
      source.close()
      clearTimeout(timer)
    }
  }, [events, name])
}

interface OneEvent {
  /** The name of the events. */
  name: string
  /** The key of what they say. */
  key: QueryKey
  /** The keys of what belongs to it, and is loaded again. */
  also?: QueryKey[]
}

/** Keeps one thing up to date. Returns true when it was deleted. */
export function useLiveOne(events: string, { name, key, also = [] }: OneEvent): boolean {
  const [gone, setGone] = useState(false)
  const show = useEffectEvent((said: string) => {
    showEvent(key, JSON.parse(said))
    void reload(...also)
  })
  useEffect(() => {
    setGone(false)
    const source = new EventSource(events)
    source.addEventListener(name, (event) => show(event.data as string))
    source.addEventListener("gone", () => {
      source.close()
      setGone(true)
    })
    return () => source.close()
  }, [events, name])
  return gone
}
