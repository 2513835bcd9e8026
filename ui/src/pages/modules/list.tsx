import { useQuery } from "@tanstack/react-query"
import { getRouteApi, Link } from "@tanstack/react-router"
import { Boxes } from "lucide-react"
import { type Module, modulesQuery } from "@/api/modules"
import { categoriesQuery } from "@/api/options"
import { CreateLink } from "@/components/actions"
import { Badge, MODULE_STATES, ModuleStateBadge } from "@/components/badge"
import { Empty } from "@/components/feedback"
import { ChoiceFilter, Filters, SearchBox, Segments } from "@/components/filters"
import { Select } from "@/components/form"
import { Paged, usePage } from "@/components/listing"
import { Page } from "@/components/page"
import { Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { moduleTexts } from "@/i18n/modules"
import { useTexts } from "@/i18n/translate"
import { listState } from "@/lib/pagination"

const route = getRouteApi("/shell/modules")
const SORTS = ["-updated", "name", "category"] as const

export function ModuleList() {
  const w = useTexts(moduleTexts)
  const c = useTexts(commonTexts)
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const show = search.show === "published" || search.show === "mine" ? search.show : "all"
  const state = search.state && MODULE_STATES[search.state] ? search.state : ""
  const sort = SORTS.find((each) => each === search.sort) ?? "-updated"
  const { filter, asked, shown } = listState(search, navigate, "-updated", 48)
  const categories = useQuery(categoriesQuery).data?.items ?? []
  const found = usePage(
    modulesQuery({
      q: search.q,
      category: search.category,
      state,
      ...(show === "mine" ? { mine: true } : {}),
      ...(show === "published" ? { published: true } : {}),
      ...asked,
      sort,
    }),
  )
  // Users without modules see how to create one, not an empty search result.
  const filtered = search.q || search.category || state || show === "published"
  const create = <CreateLink to="/modules/new">{w("create")}</CreateLink>
  return (
    <Page title={w("title")} lead={w("lead")} actions={create}>
      <Filters>
        <Segments
          label={w("show")}
          value={show}
          onChange={(value) => filter({ show: value === "all" ? undefined : value })}
          choices={[
            { value: "all", label: c("all") },
            { value: "published", label: w("published") },
            { value: "mine", label: c("mine") },
          ]}
        />
        <SearchBox
          className="w-60"
          label={w("search")}
          value={search.q ?? ""}
          onChange={(q) => filter({ q: q || undefined })}
        />
        <ChoiceFilter
          label={w("category")}
          all={w("allCategories")}
          choices={[
            ...new Set([...categories.map(({ name }) => name), ...(search.category ? [search.category] : [])]),
          ].map((name) => ({ value: name, label: name }))}
          value={search.category}
          onChange={(category) => filter({ category })}
        />
        <ChoiceFilter
          label={w("state")}
          all={w("allStates")}
          choices={Object.entries(MODULE_STATES).map(([value, { word }]) => ({ value, label: w(word) }))}
          value={state}
          onChange={(state) => filter({ state })}
        />
        <Select
          aria-label={w("sort")}
          className="w-auto"
          value={sort}
          onChange={(event) => filter({ sort: event.target.value === "-updated" ? undefined : event.target.value })}
        >
          <option value="-updated">{w("sortUpdated")}</option>
          <option value="name">{w("sortName")}</option>
          <option value="category">{w("sortCategory")}</option>
        </Select>
      </Filters>
      <Paged
        found={found}
        {...shown}
        clear={filtered ? () => void navigate({ search: {} }) : undefined}
        empty={
          <Empty icon={Boxes} title={w(show === "mine" ? "emptyMine" : "empty")} actions={create}>
            {w("emptyHelp")}
          </Empty>
        }
      >
        {(modules, busy) => (
          <ul className="grid gap-3 sm:grid-cols-2 xl:grid-cols-3" aria-label={w("title")} aria-busy={busy}>
            {modules.map((module) => (
              <Card key={module.id} module={module} />
            ))}
          </ul>
        )}
      </Paged>
    </Page>
  )
}

function Card({ module }: { module: Module }) {
  const w = useTexts(moduleTexts)
  const older = module.public_state === "published" && module.public_number !== module.versions
  return (
    <li className="relative flex flex-col gap-2 rounded-lg border bg-card p-4 transition-colors focus-within:border-ring hover:border-ring">
      <div className="flex items-start gap-2.5">
        <span
          aria-hidden
          className="flex size-9 shrink-0 items-center justify-center rounded-md bg-accent text-primary"
        >
          <Boxes className="size-4.5" />
        </span>
        <div className="min-w-0 flex-1">
          <h2 className="truncate">
            <Link
              to="/modules/$module"
              params={{ module: module.name }}
              className="after:absolute after:inset-0 after:rounded-lg hover:text-primary"
            >
              {module.name}
            </Link>
          </h2>
          <p className="truncate text-[13px] text-muted-foreground">{module.category_name}</p>
        </div>
        <ModuleStateBadge state={module.state} />
      </div>
      <p className="line-clamp-2 min-h-10.5 text-muted-foreground">{module.description || w("noDescription")}</p>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1 text-[13px] text-muted-foreground">
        <span className="font-medium text-foreground">v{module.versions}</span>
        <span className="min-w-0 truncate">{module.owner_name}</span>
        <Time at={module.updated} />
        {older && (
          <Badge tone="succeeded" className="ml-auto">
            {w("publishedAs", { n: module.public_number })}
          </Badge>
        )}
      </div>
    </li>
  )
}
