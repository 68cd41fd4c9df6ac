/** Page layout for a policy: the policy on the left, its scope's effective rules on the right. */
import { Badge } from "@mantine/core";
import type { ReactNode } from "react";
import { Time } from "../../format/Time";
import { ScopeLink } from "../../scopes/ScopeLink";
import { Card, Columns, Page } from "../../shell/Page";
import { PolicySummary } from "./PolicySummary";
import type { EffectivePolicy, PolicyRecord } from "./requests";
import { summarizeEffective } from "./summary";

interface Props {
  scope: string;
  policy: PolicyRecord | null;
  effective: EffectivePolicy;
  /** Buttons in the page header. */
  actions?: ReactNode;
  /** An alert above the columns. */
  notice?: ReactNode;
  children: ReactNode;
  /** A card above the effective rules. */
  side?: ReactNode;
  foot?: ReactNode;
  isDirty?: boolean;
}

export function PolicyLayout({
  scope,
  policy,
  effective,
  actions,
  notice,
  children,
  side,
  foot,
  isDirty = false,
}: Props) {
  return (
    <Page
      title={`Policy for ${scope}`}
      parent={{ title: "Policies", href: "/policies", name: scope }}
      badges={policy?.managed_by && <Badge color="gray">managed by {policy.managed_by}</Badge>}
      about={<About scope={scope} policy={policy} />}
      actions={actions}
    >
      {notice}
      <Columns
        label="Impact and effective rules"
        side={
          <>
            {side}
            <Card
              title="Effective rules"
              about={
                isDirty
                  ? "Rules that apply now. Save to apply your changes."
                  : "Rules that apply to this scope."
              }
            >
              <PolicySummary sections={summarizeEffective(effective)} currentScope={scope} />
            </Card>
          </>
        }
      >
        {children}
      </Columns>
      {foot}
    </Page>
  );
}

function About({ scope, policy }: { scope: string; policy: PolicyRecord | null }) {
  return (
    <>
      <ScopeLink scope={scope} />
      {policy ? (
        <>
          {` · revision ${policy.revision}, saved by ${policy.updated_by} `}
          <Time at={policy.updated_at} />
        </>
      ) : (
        " · no policy yet; all settings are inherited"
      )}
    </>
  );
}
