import { Link } from "@tanstack/react-router"
import { Compass } from "lucide-react"
import { Button } from "@/components/button"
import { Empty } from "@/components/feedback"
import { Page } from "@/components/page"
import { ProblemView } from "@/components/problem-view"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"

export function NotFound() {
  const w = useWords(commonWords)
  return (
    <Page title={w("pageNotFound")}>
      <Empty
        icon={Compass}
        title={w("pageNotFoundHelp")}
        actions={
          <Button asChild look="primary">
            <Link to="/">{w("goHome")}</Link>
          </Button>
        }
      />
    </Page>
  )
}

export function Broken({ error, reset }: { error: unknown; reset: () => void }) {
  const w = useWords(commonWords)
  return (
    <Page title={w("problemTitle")}>
      <ProblemView error={error} retry={reset} />
    </Page>
  )
}
