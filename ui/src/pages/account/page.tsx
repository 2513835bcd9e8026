import { getRouteApi } from "@tanstack/react-router"
import { useMe } from "@/api/session"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { accountWords } from "@/words/admin"
import { useWords } from "@/words/words"
import { MyTeams } from "./my-teams"
import { MyTokens } from "./my-tokens"
import { Password } from "./password"
import { Profile } from "./profile"
import { Sessions } from "./sessions"

const route = getRouteApi("/shell/account")
const TABS = { profile: Profile, password: Password, tokens: MyTokens, sessions: Sessions, teams: MyTeams }
type TabId = keyof typeof TABS

export function AccountPage() {
  const w = useWords(accountWords)
  const { user } = useMe()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const ids = Object.keys(TABS) as TabId[]
  const tab = ids.find((each) => each === search.tab) ?? "profile"
  return (
    <Page title={w("title")} lead={user.name}>
      <Tabs
        value={tab}
        onChange={(tab) => void navigate({ search: { tab: tab === "profile" ? undefined : tab } })}
        inside="flex flex-col gap-3 pt-4"
        tabs={ids.map((id) => {
          const Content = TABS[id]
          return { id, label: w(id), content: <Content /> }
        })}
      />
    </Page>
  )
}
