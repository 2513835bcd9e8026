/** The state of a module form: what it starts with, and what can be checked before the server sees it. */
import type { Module, ModuleText, ModuleVersionDetail } from "@/api/modules"

export const EMPTY_MODULE: ModuleText = {
  name: "",
  category: "",
  description: "",
  team: "",
  git_url: "",
  git_ref: "main",
  dockerfile: "Dockerfile",
  build_dir: "/",
  readme_path: "README.md",
  env: [],
  inputs: [],
  outputs: [],
}

export const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

/** The form of an existing module. */
export function moduleText(module: Module, version: ModuleVersionDetail): ModuleText {
  const { git_url, git_ref, dockerfile, build_dir, readme_path, env, inputs, outputs } = version
  return {
    name: module.name,
    category: module.category_id,
    description: module.description,
    team: module.team_id ?? "",
    git_url,
    git_ref,
    dockerfile,
    build_dir,
    readme_path,
    env,
    inputs,
    outputs: outputs.map((output) => ({ ...output, type: output.type === "file" ? "file" : "text" })),
  }
}

export type FormFault = "required" | "nameRule"

/** What is wrong, by the server's path of the field. */
export function formFaults(form: ModuleText): Record<string, FormFault> {
  const faults: Record<string, FormFault> = {}
  for (const field of ["name", "category", "git_url", "git_ref", "dockerfile", "readme_path"] as const)
    if (!form[field].trim()) faults[field] = "required"
  if (form.name && !NAME.test(form.name)) faults.name = "nameRule"
  for (const list of ["env", "inputs", "outputs"] as const)
    form[list].forEach(({ name }, index) => {
      if (!name.trim()) faults[`${list}[${index}].name`] = "required"
    })
  form.outputs.forEach(({ path }, index) => {
    if (!path.trim()) faults[`outputs[${index}].path`] = "required"
  })
  return faults
}
