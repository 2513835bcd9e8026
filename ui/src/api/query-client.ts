import { QueryClient } from "@tanstack/react-query"
import { asProblem } from "./problem"

/** What was loaded. What the server refused is not asked for again by itself; what did not reach it is. */
export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      retry: (count, error) => {
        const { status } = asProblem(error)
        return (status === 0 || status >= 500) && count < 2
      },
    },
  },
})
