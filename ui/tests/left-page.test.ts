/** Navigation from a page that the user has left already. */
import { createMemoryHistory, createRootRoute, createRoute, createRouter } from "@tanstack/react-router"
import { expect, test } from "vitest"
import { ignoreLeftPages } from "@/app/left-page"

const VERSION = "/workflows/$workflow/versions/$version"

/** A page of a version, a list, and an editor that is loaded until `loaded` is called. */
function open(address: string) {
  let loaded = () => {}
  const loading = new Promise<void>((resolve) => {
    loaded = resolve
  })
  const root = createRootRoute()
  const at = (path: string) => createRoute({ getParentRoute: () => root, path })
  const editor = createRoute({
    getParentRoute: () => root,
    path: "/workflows/$workflow/new-version",
    loader: () => loading,
  })
  const router = createRouter({
    routeTree: root.addChildren([at("/runs"), at(VERSION), editor]),
    history: createMemoryHistory({ initialEntries: [address] }),
    isServer: false,
    origin: "http://muster.test",
  })
  router.history.subscribe(() => void router.load()) // as a RouterProvider does
  return { router: ignoreLeftPages(router as never) as typeof router, loaded }
}

test("a page changes its own address", async () => {
  const { router } = open("/workflows/7/versions/3")
  await router.load()
  await router.navigate({ from: VERSION, search: { tab: "yaml" } } as never)
  expect(router.latestLocation.href).toBe("/workflows/7/versions/3?tab=yaml")
})

test("a page that is being left leaves the address alone", async () => {
  const { router, loaded } = open("/workflows/7/versions/3")
  await router.load()
  const leaving = router.navigate({ to: "/workflows/$workflow/new-version", params: { workflow: "7" } } as never)
  await router.navigate({ from: VERSION, search: { node: "train" } } as never)
  expect(router.latestLocation.href).toBe("/workflows/7/new-version")
  loaded()
  await leaving
  expect(router.latestLocation.href).toBe("/workflows/7/new-version")
})

test("a page that was left does not lead back when a late response wants to", async () => {
  const { router } = open("/workflows/7/versions/3")
  await router.load()
  await router.navigate({ to: "/runs" } as never)
  await router.navigate({ from: VERSION, to: VERSION, params: { workflow: "7", version: "4" } } as never)
  expect(router.latestLocation.href).toBe("/runs")
})

test("the last click on the navigation wins", async () => {
  const { router } = open("/workflows/7/versions/3")
  await router.load()
  void router.navigate({ to: "/workflows/$workflow/new-version", params: { workflow: "7" } } as never)
  await router.navigate({ to: "/runs" } as never)
  expect(router.latestLocation.href).toBe("/runs")
})
