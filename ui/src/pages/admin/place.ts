import { getRouteApi } from "@tanstack/react-router"
import { pieces } from "@/lib/pieces"

const route = getRouteApi("/shell/admin")

/** What the administration shows, as its address says. */
export function useAdminPlace() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { tab } = search
  return {
    search,
    place: pieces(search.pages),
    filter: (change: Partial<typeof search>) =>
      void navigate({ search: (before) => ({ ...before, pages: undefined, ...change }), replace: true }),
    onSort: (sort: string) => void navigate({ search: (before) => ({ ...before, pages: undefined, sort }), replace: true }),
    onPages: (pages: string | undefined) => void navigate({ search: (before) => ({ ...before, pages }) }),
    open: (id: string | undefined) => void navigate({ search: (before) => ({ ...before, open: id }) }),
    close: () => void navigate({ search: (before) => ({ ...before, open: undefined }), replace: true }),
    clear: () => void navigate({ search: { tab } }),
  }
}
