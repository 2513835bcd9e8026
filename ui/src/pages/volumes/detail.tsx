import { useQuery } from "@tanstack/react-query"
import { getRouteApi } from "@tanstack/react-router"
import { usageQuery, type VolumePlace, volumeQuery } from "@/api/volumes"
import { DetailPage, Facts } from "@/components/detail-page"
import { Meter } from "@/components/meter"
import { Page } from "@/components/page"
import { Time } from "@/components/time"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { volumeTexts } from "@/i18n/workspaces"
import { amountText } from "@/lib/amounts"
import { FileBrowser } from "./files"
import { accessText, Uses, VolumeActions, VolumeOwner, VolumeState } from "./list"

const route = getRouteApi("/shell/volumes/$namespace/$name")

export function VolumePage() {
  const w = useTexts(volumeTexts)
  const c = useTexts(commonTexts)
  const place = route.useParams()
  const { path = "" } = route.useSearch()
  const navigate = route.useNavigate()
  const found = useQuery(volumeQuery(place))
  return (
    <DetailPage name={place.name} list={{ to: "/volumes", title: w("title") }} found={found}>
      {(volume, back) => {
        return (
          <Page
            wide
            title={volume.name}
            aside={<VolumeState volume={volume} />}
            above={back}
            lead={
              <Facts>
                <span>
                  {w("namespace")}: {volume.namespace}
                </span>
                <span>
                  {c("owner")}: <VolumeOwner volume={volume} />
                </span>
                <span>{volume.access_modes.map((mode) => accessText(mode, w)).join(c("listComma"))}</span>
                <span>
                  {c("created")}: <Time at={volume.created} />
                </span>
              </Facts>
            }
            actions={<VolumeActions volume={volume} open />}
          >
            <div className="grid gap-4 sm:grid-cols-2">
              <section className="rounded-lg border bg-card p-4">
                <h2 className="text-sm font-medium text-muted-foreground">{w("used")}</h2>
                <Usage place={place} size={volume.size_bytes} isBound={volume.state === "bound"} />
              </section>
              <section className="rounded-lg border bg-card p-4">
                <h2 className="text-sm font-medium text-muted-foreground">{w("usedBy")}</h2>
                <div className="mt-1">
                  <Uses uses={volume.used_by} />
                </div>
              </section>
            </div>
            {volume.state === "bound" && (
              <FileBrowser
                place={place}
                path={path}
                canWrite={volume.may.includes("write")}
                open={(path) => void navigate({ search: path ? { path } : {} })}
              />
            )}
          </Page>
        )
      }}
    </DetailPage>
  )
}

/** How full the volume is. A folder of the embedded cluster may hold more than its size. */
function Usage({ place, size, isBound }: { place: VolumePlace; size: number; isBound: boolean }) {
  const w = useTexts(volumeTexts)
  const usage = useQuery({ ...usageQuery(place), enabled: isBound })
  const total = `${amountText("memory", size)}B`
  if (!usage.data)
    return <p className="mt-1">{usage.error || !isBound ? total : w("usedOf", { used: "…", size: total })}</p>
  const { bytes, files, folders, complete } = usage.data
  const used = bytes < 1024 ? `${bytes} B` : `${amountText("memory", bytes)}B`
  const said = w("usedOf", { used: complete ? used : w("atLeast", { size: used }), size: total })
  return (
    <div className="mt-1" title={w("usedHelp", { files, folders })}>
      <p>{said}</p>
      <Meter className="mt-1.5" label={w("used")} value={bytes} max={size} text={said} />
      <p className="mt-1 text-[13px] text-muted-foreground">{w("usedHelp", { files, folders })}</p>
    </div>
  )
}
