/** Webhooks: messages to other programs when a run ends. */
import { queryOptions } from "@tanstack/react-query"
import { api, data, reloadAfter, type Schema } from "./client"
import { filledIn } from "./workflows"

export type Webhook = Schema<"WebhookDetail">
export type Delivery = Schema<"Delivery">
export type EndState = Webhook["states"][number]

export interface WebhookFields {
  name: string
  /** "" keeps the URL of a webhook that is edited. */
  url: string
  /** undefined keeps the secret, "" removes it. */
  secret?: string
  workflow: string
  states: EndState[]
  enabled: boolean
}

/** Those of a team, or the user's own. */
export const webhooksQuery = (team: string) =>
  queryOptions({
    queryKey: ["webhooks", "list", team],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/webhooks", {
          params: { query: team ? filledIn({ team, limit: 200 }) : { mine: true, limit: 200 } },
          signal,
        })
        .then(data),
  })

const FAST_MILLISECONDS = 1000

/** Reloads while a message is being sent. */
export const deliveriesQuery = (webhook: string) =>
  queryOptions({
    queryKey: ["webhooks", "deliveries", webhook],
    queryFn: ({ signal }) =>
      api
        .GET("/api/v1/webhooks/{webhook}/deliveries", {
          params: { path: { webhook }, query: { limit: 100 } },
          signal,
        })
        .then(data),
    refetchInterval: ({ state }) =>
      state.data?.items.some((each) => each.state === "pending") ? FAST_MILLISECONDS : false,
  })

export async function createWebhook(team: string, { secret = "", ...fields }: WebhookFields): Promise<Webhook> {
  return changed(api.POST("/api/v1/webhooks", { body: { ...fields, secret, team } }).then(data))
}

export async function editWebhook(webhook: Webhook, fields: WebhookFields): Promise<Webhook> {
  return changed(
    api
      .PATCH("/api/v1/webhooks/{webhook}", {
        params: { path: { webhook: webhook.id }, header: { "if-match": `"${webhook.id}-${webhook.revision}"` } },
        body: fields as Required<WebhookFields>,
      })
      .then(data),
  )
}

export async function deleteWebhook(webhook: string): Promise<unknown> {
  return changed(api.DELETE("/api/v1/webhooks/{webhook}", { params: { path: { webhook } } }))
}

export async function testWebhook(webhook: string): Promise<Delivery> {
  return changed(api.POST("/api/v1/webhooks/{webhook}/test", { params: { path: { webhook } } }).then(data))
}

export async function redeliver(webhook: string, delivery: string): Promise<Delivery> {
  return changed(
    api
      .POST("/api/v1/webhooks/{webhook}/deliveries/{delivery}/redeliver", { params: { path: { webhook, delivery } } })
      .then(data),
  )
}

function changed<T>(work: Promise<T>): Promise<T> {
  return reloadAfter(work, ["webhooks"])
}
