/** Form for one scope's policy. */
import { RequirementsFields } from "../../forms/requirements/RequirementsFields";
import { Card } from "../../shell/Page";
import { LimitFactors, QueueLimits, Quota } from "./Amounts";
import type { PolicyDraft } from "./drafts";
import { Rules } from "./Rules";
import { Switches } from "./Switches";

interface Props {
  draft: PolicyDraft;
  onChange: (draft: PolicyDraft) => void;
  mayLimitGpuMemory: boolean;
  maySetWeight: boolean;
}

export function PolicyForm({ draft, onChange, mayLimitGpuMemory, maySetWeight }: Props) {
  const change = (part: Partial<PolicyDraft>) => onChange({ ...draft, ...part });
  return (
    <>
      <Card title="Rules" about="Limits on what runs may request. Lower scopes can only tighten them.">
        <Rules rows={draft.rules} onChange={(rules) => change({ rules })} />
      </Card>
      <Card title="Switches" about="Feature switches. The strictest setting applies.">
        <Switches draft={draft} change={change} />
      </Card>
      <Card
        title="Limit factors"
        about="Default limits as a multiple of the request. The nearest scope's value applies."
      >
        <LimitFactors draft={draft} change={change} />
      </Card>
      <Card title="Quota" about="Total for all runs in this scope.">
        <Quota draft={draft} change={change} />
      </Card>
      <Card title="Queue" about="For each project. The smallest limit and the nearest scope's weight apply.">
        <QueueLimits draft={draft} change={change} maySetWeight={maySetWeight} />
      </Card>
      <Card title="Defaults" about="Used when nothing else sets a value. The nearest scope's value applies.">
        <RequirementsFields
          path="defaults"
          profiles={{}}
          value={draft.defaults}
          onChange={(defaults) => change({ defaults })}
          mayLimitGpuMemory={mayLimitGpuMemory}
        />
      </Card>
    </>
  );
}
