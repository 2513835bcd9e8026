import { getRouteApi } from "@tanstack/react-router"
import { browsing } from "@/lib/browsing"

const route = getRouteApi("/shell/admin")

/** What the administration shows, as its address says; in the `usual` order if it says none. */
export function useAdminPlace(usual = "name") {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { tab } = search
  return {
    search,
    ...browsing(search, (search, replace) => void navigate({ search, replace }), usual),
    open: (id: string | undefined) => void navigate({ search: (before) => ({ ...before, open: id }) }),
    close: () => void navigate({ search: (before) => ({ ...before, open: undefined }), replace: true }),
    clear: () => void navigate({ search: { tab } }),
  }
}
