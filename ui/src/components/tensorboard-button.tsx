/** Opens a TensorBoard on what a run, a job or a notebook has written: one is created if there is none. */
import { useNavigate } from "@tanstack/react-router"
import { ChartSpline } from "lucide-react"
import { useState } from "react"
import { createTensorBoard, placeOfWorkspace, type TensorBoardBody } from "@/api/workspaces"
import { useTexts } from "@/i18n/translate"
import { tensorBoardTexts } from "@/i18n/workspaces"
import { Button } from "./button"
import { noteError } from "./toasts"

export function TensorBoardButton({ of }: { of: Partial<Pick<TensorBoardBody, "runs" | "job" | "notebook">> }) {
  const w = useTexts(tensorBoardTexts)
  const navigate = useNavigate()
  const [busy, setBusy] = useState(false)
  const open = async () => {
    setBusy(true)
    try {
      const board = await createTensorBoard(of)
      void navigate({ to: "/tensorboards/$namespace/$name", params: placeOfWorkspace(board) })
    } catch (error) {
      noteError(error)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Button disabled={busy} title={w("buttonHelp")} onClick={() => void open()}>
      <ChartSpline />
      {w("button")}
    </Button>
  )
}
