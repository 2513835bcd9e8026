import { keepPreviousData, useQuery } from "@tanstack/react-query"
import { KeyRound } from "lucide-react"
import { tokensQuery } from "@/api/admin"
import { Empty } from "@/components/feedback"
import { Filters, SearchBox } from "@/components/filters"
import { Tick } from "@/components/form"
import { Listing } from "@/components/listing"
import { useTokenColumns } from "@/components/token-parts"
import { adminWords } from "@/words/admin"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"
import { useAdminPlace } from "./place"

export function Tokens() {
  const w = useWords(adminWords)
  const c = useWords(commonWords)
  const { search, asked, shown, filter, clear } = useAdminPlace("-created")
  const found = useQuery({
    ...tokensQuery({ q: search.q, all: search.all === "yes" ? true : undefined, ...asked }),
    placeholderData: keepPreviousData,
  })
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
