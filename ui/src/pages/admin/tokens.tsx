import { KeyRound } from "lucide-react"
import { tokensQuery } from "@/api/admin"
import { Empty } from "@/components/feedback"
import { Filters, SearchBox } from "@/components/filters"
import { Tick } from "@/components/form"
import { Listing, usePage } from "@/components/listing"
import { useTokenColumns } from "@/components/token-table"
import { adminTexts } from "@/i18n/admin"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { useAdminList } from "./managed-list"

export function Tokens() {
  const w = useTexts(adminTexts)
  const c = useTexts(commonTexts)
  const { search, asked, shown, filter, clear } = useAdminList("-created")
  const found = usePage(tokensQuery({ q: search.q, all: search.all === "yes" ? true : undefined, ...asked }))
  const columns = useTokenColumns(c("name"), true)
  return (
    <>
      <Filters>
        <SearchBox label={w("searchTokens")} value={search.q ?? ""} onChange={(q) => filter({ q: q || undefined })} />
        <Tick
          label={w("endedToo")}
          checked={search.all === "yes"}
          onChange={(event) => filter({ all: event.target.checked ? "yes" : undefined })}
        />
      </Filters>
      <Listing
        label={w("tokens")}
        found={found}
        columns={columns}
        rowId={(token) => token.id}
        {...shown}
        clear={search.q ? clear : undefined}
        empty={
          <Empty icon={KeyRound} title={w("noTokens")}>
            {w("noTokensHelp")}
          </Empty>
        }
      />
    </>
  )
}
