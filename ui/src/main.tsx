import { QueryClientProvider } from "@tanstack/react-query"
import { RouterProvider } from "@tanstack/react-router"
import { StrictMode } from "react"
import { createRoot } from "react-dom/client"
import { onSignedOut, queryClient } from "@/api/client"
import { loadAhead } from "@/app/load-ahead"
import { applyPreferences } from "@/app/preferences"
import { router } from "@/app/router"

import "./styles.css"

applyPreferences()
loadAhead(location.pathname)
onSignedOut(() => {
  queryClient.removeQueries({ queryKey: ["session"] })
  void router.invalidate()
})

const root = document.getElementById("root")
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  )
}
