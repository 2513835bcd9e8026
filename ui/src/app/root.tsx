import { Outlet } from "@tanstack/react-router"
import { Toasts } from "@/components/toasts"

export function Root() {
  return (
    <>
      <Outlet />
      <Toasts />
    </>
  )
}
