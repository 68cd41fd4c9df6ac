/** What was decided for a run: every value with its source, and the objects that were made of it. */
import type { ReactNode } from "react";
import type { Plan } from "../../../api/plans";
import { type Run, usePlanOf } from "../../../api/runs";
import { Manifests } from "../../../plans/Manifests";
import { Values } from "../../../plans/Values";
import { Loading } from "../../../shell/Loading";
import { Card, Columns } from "../../../shell/Page";
import { FindingList, ProblemAlert } from "../../../shell/Problem";

export function PlanValues({ run }: { run: Run }) {
  return (
    <OfPlan run={run}>
      {(plan) => {
        const values = (
          <Card title="Values" about="What was decided for this run, and who said it.">
            <Values settings={plan.settings} />
          </Card>
        );
        if (plan.warnings.length === 0) return values;
        const warnings = (
          <Card title="Worth knowing">
            <FindingList findings={plan.warnings} />
          </Card>
        );
        return <Columns side={warnings}>{values}</Columns>;
      }}
    </OfPlan>
  );
}

export function PlanManifests({ run }: { run: Run }) {
  return (
    <OfPlan run={run}>
      {(plan) => (
        <Card title="Manifests" about="What a cluster is given for this run.">
          <Manifests manifests={plan.manifests} name={`${run.function}-${run.id}`} />
        </Card>
      )}
    </OfPlan>
  );
}

function OfPlan({ run, children }: { run: Run; children: (plan: Plan) => ReactNode }) {
  const plan = usePlanOf(run.id);
  if (plan.data) return children(plan.data);
  if (plan.error) return <ProblemAlert error={plan.error} onRetry={() => void plan.refetch()} />;
  return <Loading />;
}
