/** The routes. Each page is loaded when it is first opened. */
import { lazy, Suspense, useEffect } from "react";
import { Redirect, Route, Switch, useLocation } from "wouter";
import { ErrorBoundary } from "./shell/ErrorBoundary";
import { Loading } from "./shell/Loading";
import { NotFoundPage } from "./shell/NotFoundPage";
import { notify } from "./shell/notices";
import { Shell } from "./shell/Shell";

const Runs = lazy(() => import("./features/runs/table/Runs"));
const Run = lazy(() => import("./features/runs/page/RunPage"));
const NewRun = lazy(() => import("./features/runs/form/NewRun"));
const Functions = lazy(() => import("./features/functions/Functions"));
const FunctionPage = lazy(() => import("./features/functions/FunctionPage"));
const Schedules = lazy(() => import("./features/schedules/Schedules"));
const Capacity = lazy(() => import("./features/capacity/Capacity"));
const ComputeResources = lazy(() => import("./features/compute-resources/ComputeResources"));
const ComputeResourceForm = lazy(() => import("./features/compute-resources/FormPage"));
const ComputeResource = lazy(() => import("./features/compute-resources/DetailPage"));
const Templates = lazy(() => import("./features/templates/Templates"));
const TemplateForm = lazy(() => import("./features/templates/FormPage"));
const Template = lazy(() => import("./features/templates/DetailPage"));
const Policies = lazy(() => import("./features/policies/Policies"));
const Policy = lazy(() => import("./features/policies/PolicyPage"));
const Tokens = lazy(() => import("./features/tokens/Tokens"));
const Settings = lazy(() => import("./features/settings/Settings"));
const Organization = lazy(() => import("./features/organization/Organization"));
const Secrets = lazy(() => import("./features/secrets/Secrets"));
const Audit = lazy(() => import("./features/audit/Audit"));

export function Pages() {
  // The path is the error boundary's key, so that an error on one page does not hide the others.
  const [path] = useLocation();
  return (
    <Shell>
      <ErrorBoundary key={path}>
        <Suspense fallback={<Loading />}>
          <Switch>
            <Route path="/">
              <Redirect to="/runs" replace />
            </Route>
            <Route path="/sign-in" component={SignInRedirect} />
            <Route path="/runs" component={Runs} />
            <Route path="/new/run" component={NewRun} />
            <Route path="/runs/:id/:part?" component={Run} />
            <Route path="/functions" component={Functions} />
            <Route path="/functions/:project/:name/:part?" component={FunctionPage} />
            <Route path="/schedules" component={Schedules} />
            <Route path="/capacity" component={Capacity} />
            <Route path="/compute-resources" component={ComputeResources} />
            <Route path="/new/compute-resource" component={ComputeResourceForm} />
            <Route path="/compute-resources/:name/edit" component={ComputeResourceForm} />
            <Route path="/compute-resources/:name/copy" component={ComputeResourceForm} />
            <Route path="/compute-resources/:name" component={ComputeResource} />
            <Route path="/templates" component={Templates} />
            <Route path="/new/template" component={TemplateForm} />
            <Route path="/templates/:name/edit" component={TemplateForm} />
            <Route path="/templates/:name/copy" component={TemplateForm} />
            <Route path="/templates/:name" component={Template} />
            <Route path="/policies" component={Policies} />
            <Route path="/policies/:kind/:name" component={Policy} />
            <Route path="/tokens" component={Tokens} />
            <Route path="/settings" component={Settings} />
            <Route path="/organization" component={Organization} />
            <Route path="/secrets/:project?" component={Secrets} />
            <Route path="/audit" component={Audit} />
            <Route>
              <NotFoundPage />
            </Route>
          </Switch>
        </Suspense>
      </ErrorBoundary>
    </Shell>
  );
}

/** A signed-in user does not need the sign-in page, but should still see why a new sign-in attempt failed. */
function SignInRedirect() {
  useEffect(() => {
    const failed = new URLSearchParams(window.location.search).get("failed");
    if (failed) notify(failed);
  }, []);
  return <Redirect to="/runs" replace />;
}
