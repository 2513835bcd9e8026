/**
 * The page that the user is leaving. It stays on the screen while the code of the next one is loaded, and must not change
 * the address any more: the parameters of its address are gone, and the user would be led back to it.
 */
import { type AnyRouter, useRouterState } from "@tanstack/react-router"

/**
 * Makes the router ignore navigation from a page that is not the one in the address any more, as by `useNavigate()` of its
 * route: a search box that waits for a pause in typing, a click on an old page, a form whose response is late.
 */
export function ignoreLeftPages<R extends AnyRouter>(router: R): R {
  const navigate = router.navigate
  router.navigate = (options) => {
    const { from } = options as { from?: string }
    if (from === undefined || from === pageAt(router)) return navigate(options)
    return Promise.resolve()
  }
  return router
}

/** True while another page is loaded. A change of the search parameters is no other page. */
export function useIsLeft(): boolean {
  return useRouterState({
    select: ({ location, resolvedLocation }) =>
      resolvedLocation !== undefined && resolvedLocation.pathname !== location.pathname,
  })
}

/** The path of the page in the address, with the names of its parameters. */
function pageAt(router: AnyRouter): string | undefined {
  const [routes] = router.getMatchedRoutes(router.latestLocation.pathname)
  return routes.at(-1)?.fullPath as string | undefined
}
