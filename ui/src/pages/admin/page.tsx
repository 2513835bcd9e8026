import { getRouteApi } from "@tanstack/react-router"
import { ShieldAlert } from "lucide-react"
import { useMe } from "@/api/client"
import { Empty } from "@/components/feedback"
import { Page } from "@/components/page"
import { Tabs } from "@/components/tabs"
import { adminTexts } from "@/i18n/admin"
import { useTexts } from "@/i18n/translate"
import { Audit } from "./audit"
import { Categories } from "./categories"
import { Clusters } from "./clusters"
import { Storage } from "./storage"
import { Teams } from "./teams"
import { Tokens } from "./tokens"
import { Users } from "./users"

const route = getRouteApi("/shell/admin")
const TABS = {
  users: Users,
  teams: Teams,
  categories: Categories,
  storage: Storage,
  clusters: Clusters,
  tokens: Tokens,
  audit: Audit,
}
type TabId = keyof typeof TABS

export function AdminPage() {
  const w = useTexts(adminTexts)
  const me = useMe()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const ids = Object.keys(TABS) as TabId[]
  const tab = ids.find((each) => each === search.tab) ?? "users"
  if (me.user.role !== "admin")
    return (
      <Page title={w("title")}>
        <Empty icon={ShieldAlert} title={w("onlyAdmins")}>
          {w("onlyAdminsHelp")}
        </Empty>
      </Page>
    )
  return (
    <Page title={w("title")} lead={w("lead")} wide>
      <Tabs
        value={tab}
        onChange={(tab) => void navigate({ search: { tab: tab === "users" ? undefined : tab } })}
        inside="flex flex-col gap-3 pt-4"
        tabs={ids.map((id) => {
          const Content = TABS[id]
          return { id, label: w(id), content: <Content /> }
        })}
      />
    </Page>
  )
}
