/** Links of kfp.Client open our pages. */
import { expect, test } from "vitest"
import { kubeflowAddress } from "@/app/kubeflow-links"

test.each([
  ["/runs/details/01a1", "/pipelines/runs/01a1"],
  ["#/runs/details/01a1", "/pipelines/runs/01a1"],
  ["/runs/details/01a1?x=1", "/pipelines/runs/01a1"],
  ["/experiments/details/e", "/pipelines/experiments/e"],
  ["/pipelines/details/p", "/pipelines/p"],
  ["/pipelines/details/p/version/v", "/pipelines/p/versions/v"],
  ["/recurringrun/details/r", "/pipelines/recurring/r"],
  ["/runs/details/..%2Fx", "/pipelines/runs/..%252Fx"],
  ["", undefined],
  ["top", undefined],
  ["/runs", undefined],
  ["/runs/details/a/b", undefined],
])("%s opens %s", (hash, address) => {
  expect(kubeflowAddress(hash)).toBe(address)
})
