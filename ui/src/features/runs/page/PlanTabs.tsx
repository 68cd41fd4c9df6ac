/** The plan of a run: resolved settings with their sources, and manifests. */
import type { ReactNode } from "react";
import type { Plan } from "../../../api/plans";
import { type Run, usePlanOf } from "../../../api/runs";
import { Manifests } from "../../../plans/Manifests";
import { SettingList } from "../../../plans/SettingList";
import { Loading } from "../../../shell/Loading";
import { Card, Columns } from "../../../shell/Page";
import { FindingList, ProblemAlert } from "../../../shell/Problem";

export function PlanSettings({ run }: { run: Run }) {
  return (
    <WithPlan run={run}>
      {(plan) => {
        const settings = (
          <Card title="Configuration" about="Final settings and where each came from.">
            <SettingList settings={plan.settings} />
          </Card>
        );
        if (plan.warnings.length === 0) return settings;
        const warnings = (
          <Card title="Warnings">
            <FindingList findings={plan.warnings} />
          </Card>
        );
        return <Columns side={warnings}>{settings}</Columns>;
      }}
    </WithPlan>
  );
}

export function PlanManifests({ run }: { run: Run }) {
  return (
    <WithPlan run={run}>
      {(plan) => (
        <Card title="Manifests" about="Kubernetes objects for this run.">
          <Manifests manifests={plan.manifests} name={`${run.function}-${run.id}`} />
        </Card>
      )}
    </WithPlan>
  );
}

function WithPlan({ run, children }: { run: Run; children: (plan: Plan) => ReactNode }) {
  const plan = usePlanOf(run.id);
  if (plan.data) return children(plan.data);
  if (plan.error) return <ProblemAlert error={plan.error} onRetry={() => void plan.refetch()} />;
  return <Loading />;
}
