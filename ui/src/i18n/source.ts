import { texts } from "./translate"

export const sourceTexts = texts({
  title: ["Source", "源代码"],
  files: ["Files", "文件"],
  notStored: [
    "The source of this version was not stored. Versions that are built from now on have it.",
    "该版本没有保存源代码，之后构建的版本会保存。",
  ],
  comparedWith: ["Compared with version {n}", "与版本 {n} 对比"],
  notCompared: [
    "The source of version {n} was not stored, so all files are shown.",
    "版本 {n} 没有保存源代码，因此显示全部文件。",
  ],
  onlyChanged: ["Only changed files ({n})", "仅显示有变更的文件（{n}）"],
  none: ["No file has changed.", "没有文件变更。"],
  leftOut: ["{n} more file is not listed.||{n} more files are not listed.", "另有 {n} 个文件未列出。"],
  choose: ["Select a file to read it.", "选择一个文件进行查看。"],
  binary: ["This file is not text. Only its name and size are shown.", "该文件不是文本，仅显示名称和大小。"],
  large: ["This file is too large to be shown.", "该文件过大，无法显示。"],
  link: ["Link to {target}", "指向 {target} 的链接"],
  diff: ["Changes", "变更"],
  whole: ["Whole file", "完整文件"],
  view: ["View", "查看方式"],
  added: ["added", "新增"],
  removed: ["removed", "删除"],
  changed: ["changed", "修改"],
})
