/** Every address of the UI. Pages are loaded on demand. */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent, redirect } from "@tanstack/react-router"
import { queryClient, sessionQuery } from "@/api/client"
import { asProblem } from "@/api/problem"
import { Loading } from "@/components/feedback"
import { kubeflowAddress } from "./kubeflow-links"
import { ignoreLeftPages } from "./left-page"
import { loadRun, loadVersion } from "./load-ahead"
import { ErrorPage, NotFoundPage, Root, Shell } from "./shell"

type Texts<K extends string> = Partial<Record<K, string>>

/** The query parameters that a page knows, as texts. */
function texts<K extends string>(...names: K[]) {
  return (search: Record<string, unknown>): Texts<K> => {
    const known: Texts<K> = {}
    for (const name of names) if (search[name] !== undefined && search[name] !== "") known[name] = String(search[name])
    return known
  }
}

const root = createRootRoute({ component: Root, notFoundComponent: NotFoundPage, errorComponent: ErrorPage })

const signIn = createRoute({
  getParentRoute: () => root,
  path: "/sign-in",
  validateSearch: texts("to", "error"),
  component: lazyRouteComponent(() => import("@/pages/sign-in"), "SignIn"),
})

const welcome = createRoute({
  getParentRoute: () => root,
  path: "/welcome",
  component: lazyRouteComponent(() => import("@/pages/sign-in"), "Welcome"),
})

const shell = createRoute({
  getParentRoute: () => root,
  id: "shell",
  component: Shell,
  errorComponent: ErrorPage,
  beforeLoad: async ({ location }) => {
    try {
      await queryClient.ensureQueryData(sessionQuery)
    } catch (error) {
      if (asProblem(error).status !== 401) throw error
      throw redirect({ to: "/sign-in", search: location.href === "/" ? {} : { to: location.href } })
    }
  },
})

const home = createRoute({
  getParentRoute: () => shell,
  path: "/",
  beforeLoad: ({ location }) => {
    const href = kubeflowAddress(location.hash)
    if (href !== undefined) throw redirect({ href, replace: true })
  },
  component: lazyRouteComponent(() => import("@/pages/home"), "Home"),
})

const workflows = createRoute({
  getParentRoute: () => shell,
  path: "/workflows",
  validateSearch: texts("q", "owner", "archived", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/workflows/list"), "WorkflowList"),
})

const newWorkflow = createRoute({
  getParentRoute: () => shell,
  path: "/workflows/new",
  validateSearch: texts("type", "module"),
  component: lazyRouteComponent(() => import("@/pages/workflows/new"), "NewWorkflow"),
})

const workflow = createRoute({
  getParentRoute: () => shell,
  path: "/workflows/$workflow",
  validateSearch: texts("tab", "q", "state", "owner", "version", "tag", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/workflows/detail"), "WorkflowDetail"),
})

const newVersion = createRoute({
  getParentRoute: () => shell,
  path: "/workflows/$workflow/new-version",
  validateSearch: texts("from"),
  component: lazyRouteComponent(() => import("@/pages/workflows/new"), "NewVersion"),
})

const version = createRoute({
  getParentRoute: () => shell,
  path: "/workflows/$workflow/versions/$version",
  validateSearch: texts("node", "tab"),
  loader: ({ params: { workflow, version }, preload }) => {
    if (!preload) loadVersion(workflow, version)
  },
  preloadStaleTime: 0,
  component: lazyRouteComponent(() => import("@/pages/workflows/version"), "VersionPage"),
})

const copy = createRoute({
  getParentRoute: () => shell,
  path: "/workflows/$workflow/versions/$version/copy",
  validateSearch: texts("into"),
  component: lazyRouteComponent(() => import("@/pages/workflows/new"), "CopyVersion"),
})

const diff = createRoute({
  getParentRoute: () => shell,
  path: "/workflows/$workflow/diff",
  validateSearch: texts("before", "after"),
  component: lazyRouteComponent(() => import("@/pages/workflows/diff"), "VersionDiff"),
})

const runs = createRoute({
  getParentRoute: () => shell,
  path: "/runs",
  validateSearch: texts("q", "state", "origin", "workflow", "owner", "tag", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/runs/list"), "RunList"),
})

const argoWorkflow = createRoute({
  getParentRoute: () => shell,
  path: "/runs/argo/$namespace/$name",
  validateSearch: texts("node", "tab", "view", "q", "failed"),
  component: lazyRouteComponent(() => import("@/pages/runs/argo"), "ArgoWorkflowPage"),
})

const newRun = createRoute({
  getParentRoute: () => shell,
  path: "/runs/new",
  validateSearch: texts("workflow", "version", "copy"),
  component: lazyRouteComponent(() => import("@/pages/runs/new"), "NewRun"),
})

const run = createRoute({
  getParentRoute: () => shell,
  path: "/runs/$run",
  validateSearch: texts("node", "tab", "view", "q", "failed"),
  // At the same time as the page. Not for a mouse that only passes over a link.
  loader: ({ params: { run }, preload }) => {
    if (!preload) loadRun(run)
  },
  preloadStaleTime: 0,
  component: lazyRouteComponent(() => import("@/pages/runs/detail"), "RunPage"),
})

const modules = createRoute({
  getParentRoute: () => shell,
  path: "/modules",
  validateSearch: texts("q", "category", "show", "state", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/modules/list"), "ModuleList"),
})

const newModule = createRoute({
  getParentRoute: () => shell,
  path: "/modules/new",
  component: lazyRouteComponent(() => import("@/pages/modules/edit"), "NewModule"),
})

const module = createRoute({
  getParentRoute: () => shell,
  path: "/modules/$module",
  validateSearch: texts("version", "tab"),
  component: lazyRouteComponent(() => import("@/pages/modules/detail"), "ModuleDetail"),
})

const editModule = createRoute({
  getParentRoute: () => shell,
  path: "/modules/$module/edit",
  component: lazyRouteComponent(() => import("@/pages/modules/edit"), "EditModule"),
})

const reviews = createRoute({
  getParentRoute: () => shell,
  path: "/reviews",
  validateSearch: texts("q", "state", "mine", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/reviews/list"), "ReviewList"),
})

const review = createRoute({
  getParentRoute: () => shell,
  path: "/reviews/$review",
  validateSearch: texts("tab", "file"),
  component: lazyRouteComponent(() => import("@/pages/reviews/detail"), "ReviewDetail"),
})

const schedules = createRoute({
  getParentRoute: () => shell,
  path: "/schedules",
  validateSearch: texts("q", "kind", "state", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/schedules/list"), "ScheduleList"),
})

const newSchedule = createRoute({
  getParentRoute: () => shell,
  path: "/schedules/new",
  component: lazyRouteComponent(() => import("@/pages/schedules/new"), "NewSchedule"),
})

const schedule = createRoute({
  getParentRoute: () => shell,
  path: "/schedules/$namespace/$name",
  validateSearch: texts("tab", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/schedules/detail"), "SchedulePage"),
})

const pipelines = createRoute({
  getParentRoute: () => shell,
  path: "/pipelines",
  validateSearch: texts("q", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/pipelines/list"), "PipelineList"),
})

const pipeline = createRoute({
  getParentRoute: () => shell,
  path: "/pipelines/$pipeline",
  validateSearch: texts("tab"),
  component: lazyRouteComponent(() => import("@/pages/pipelines/detail"), "PipelinePage"),
})

const pipelineVersion = createRoute({
  getParentRoute: () => shell,
  path: "/pipelines/$pipeline/versions/$version",
  validateSearch: texts("tab"),
  component: lazyRouteComponent(() => import("@/pages/pipelines/detail"), "PipelineVersionPage"),
})

const experiments = createRoute({
  getParentRoute: () => shell,
  path: "/pipelines/experiments",
  validateSearch: texts("q", "archived", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/pipelines/experiments"), "ExperimentList"),
})

const experiment = createRoute({
  getParentRoute: () => shell,
  path: "/pipelines/experiments/$experiment",
  validateSearch: texts("q", "state", "archived", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/pipelines/experiments"), "ExperimentPage"),
})

const pipelineRuns = createRoute({
  getParentRoute: () => shell,
  path: "/pipelines/runs",
  validateSearch: texts("q", "state", "experiment", "archived", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/pipelines/runs"), "PipelineRunList"),
})

const newPipelineRun = createRoute({
  getParentRoute: () => shell,
  path: "/pipelines/runs/new",
  validateSearch: texts("pipeline", "version", "experiment", "clone", "recurring"),
  component: lazyRouteComponent(() => import("@/pages/pipelines/new-run"), "NewPipelineRun"),
})

const pipelineRun = createRoute({
  getParentRoute: () => shell,
  path: "/pipelines/runs/$run",
  validateSearch: texts("node", "tab", "view"),
  component: lazyRouteComponent(() => import("@/pages/pipelines/run"), "PipelineRunPage"),
})

const comparePipelineRuns = createRoute({
  getParentRoute: () => shell,
  path: "/pipelines/compare",
  validateSearch: texts("runs"),
  component: lazyRouteComponent(() => import("@/pages/pipelines/compare"), "ComparePipelineRuns"),
})

const recurringRuns = createRoute({
  getParentRoute: () => shell,
  path: "/pipelines/recurring",
  validateSearch: texts("q", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/pipelines/recurring"), "RecurringRunList"),
})

const recurringRun = createRoute({
  getParentRoute: () => shell,
  path: "/pipelines/recurring/$recurring",
  validateSearch: texts("sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/pipelines/recurring"), "RecurringRunPage"),
})

const pipelineRoutes = [
  pipelines,
  pipeline,
  pipelineVersion,
  experiments,
  experiment,
  pipelineRuns,
  newPipelineRun,
  pipelineRun,
  comparePipelineRuns,
  recurringRuns,
  recurringRun,
] as const

const moduleRoutes = [modules, newModule, module, editModule, reviews, review] as const

const cluster = createRoute({
  getParentRoute: () => shell,
  path: "/cluster",
  validateSearch: texts("tab", "queue", "phase"),
  component: lazyRouteComponent(() => import("@/pages/cluster/page"), "ClusterPage"),
})

const clusterNode = createRoute({
  getParentRoute: () => shell,
  path: "/cluster/nodes/$node",
  component: lazyRouteComponent(() => import("@/pages/cluster/nodes"), "NodePage"),
})

const virtualCluster = createRoute({
  getParentRoute: () => shell,
  path: "/cluster/virtual/$cluster",
  validateSearch: texts("range"),
  component: lazyRouteComponent(() => import("@/pages/cluster/virtual-clusters"), "VirtualClusterPage"),
})

const admin = createRoute({
  getParentRoute: () => shell,
  path: "/admin",
  validateSearch: texts(
    "tab",
    "open",
    "q",
    "sort",
    "pages",
    "role",
    "state",
    "all",
    "actor",
    "kind",
    "action",
    "since",
    "until",
  ),
  component: lazyRouteComponent(() => import("@/pages/admin/page"), "AdminPage"),
})

const team = createRoute({
  getParentRoute: () => shell,
  path: "/teams/$team",
  validateSearch: texts("open", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/team"), "TeamPage"),
})

const account = createRoute({
  getParentRoute: () => shell,
  path: "/account",
  validateSearch: texts("tab", "open", "pages"),
  component: lazyRouteComponent(() => import("@/pages/account"), "AccountPage"),
})

const adminRoutes = [cluster, clusterNode, virtualCluster, admin, team, account] as const

const jobs = createRoute({
  getParentRoute: () => shell,
  path: "/jobs",
  validateSearch: texts("q", "kind", "state", "owner", "run", "days", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/jobs/list"), "JobList"),
})

const newJob = createRoute({
  getParentRoute: () => shell,
  path: "/jobs/new",
  validateSearch: texts("example"),
  component: lazyRouteComponent(() => import("@/pages/jobs/new"), "NewJob"),
})

const job = createRoute({
  getParentRoute: () => shell,
  path: "/jobs/$namespace/$kind/$name",
  validateSearch: texts("tab", "pods"),
  component: lazyRouteComponent(() => import("@/pages/jobs/detail"), "JobPage"),
})

const compare = createRoute({
  getParentRoute: () => shell,
  path: "/compare",
  validateSearch: texts("of"),
  component: lazyRouteComponent(() => import("@/pages/compare"), "ComparePage"),
})

const dispatch = createRoute({
  getParentRoute: () => shell,
  path: "/dispatch",
  validateSearch: texts("q", "adapter", "state", "owner", "days", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/dispatch/list"), "DispatchList"),
})

const dispatchJob = createRoute({
  getParentRoute: () => shell,
  path: "/dispatch/$job",
  validateSearch: texts("tab"),
  component: lazyRouteComponent(() => import("@/pages/dispatch/detail"), "DispatchJobPage"),
})

const volumes = createRoute({
  getParentRoute: () => shell,
  path: "/volumes",
  validateSearch: texts("q", "owner", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/volumes/list"), "VolumeList"),
})

const volume = createRoute({
  getParentRoute: () => shell,
  path: "/volumes/$namespace/$name",
  validateSearch: texts("path"),
  component: lazyRouteComponent(() => import("@/pages/volumes/detail"), "VolumePage"),
})

const notebooks = createRoute({
  getParentRoute: () => shell,
  path: "/notebooks",
  validateSearch: texts("q", "state", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/notebooks/list"), "NotebookList"),
})

const newNotebook = createRoute({
  getParentRoute: () => shell,
  path: "/notebooks/new",
  component: lazyRouteComponent(() => import("@/pages/notebooks/new"), "NewNotebook"),
})

const notebook = createRoute({
  getParentRoute: () => shell,
  path: "/notebooks/$namespace/$name",
  validateSearch: texts("tab"),
  component: lazyRouteComponent(() => import("@/pages/notebooks/detail"), "NotebookPage"),
})

const editNotebook = createRoute({
  getParentRoute: () => shell,
  path: "/notebooks/$namespace/$name/edit",
  component: lazyRouteComponent(() => import("@/pages/notebooks/new"), "EditNotebook"),
})

const tensorBoards = createRoute({
  getParentRoute: () => shell,
  path: "/tensorboards",
  validateSearch: texts("q", "state", "sort", "pages"),
  component: lazyRouteComponent(() => import("@/pages/tensorboards/list"), "TensorBoardList"),
})

const tensorBoard = createRoute({
  getParentRoute: () => shell,
  path: "/tensorboards/$namespace/$name",
  validateSearch: texts("tab"),
  component: lazyRouteComponent(() => import("@/pages/tensorboards/detail"), "TensorBoardPage"),
})

const workspaceRoutes = [
  volumes,
  volume,
  notebooks,
  newNotebook,
  notebook,
  editNotebook,
  tensorBoards,
  tensorBoard,
] as const

const jobRoutes = [jobs, newJob, job, compare, dispatch, dispatchJob] as const

const tree = root.addChildren([
  signIn,
  welcome,
  shell.addChildren([
    home,
    workflows,
    newWorkflow,
    workflow,
    newVersion,
    version,
    copy,
    diff,
    runs,
    newRun,
    run,
    argoWorkflow,
    schedules,
    newSchedule,
    schedule,
    ...pipelineRoutes,
    ...moduleRoutes,
    ...adminRoutes,
    ...jobRoutes,
    ...workspaceRoutes,
  ]),
])

export const router = ignoreLeftPages(
  createRouter({
    routeTree: tree,
    defaultPreload: "intent",
    defaultPendingComponent: Loading,
    defaultPendingMs: 300,
    scrollRestoration: true,
  }),
)

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router
  }
}
