/** Read-only view of a policy that the user may not edit, or that is managed by files. */
import { Alert, Button, Stack, Text } from "@mantine/core";
import { IconFileText, IconLock } from "@tabler/icons-react";
import { Card } from "../../shell/Page";
import { PolicyLayout } from "./PolicyLayout";
import { PolicySummary } from "./PolicySummary";
import type { EffectivePolicy, PolicyRecord } from "./requests";
import { summarizePolicy } from "./summary";

interface Props {
  scope: string;
  policy: PolicyRecord | null;
  effective: EffectivePolicy;
  /** Set if the user may edit the policy even though it is managed by files. */
  onEditAnyway?: () => void;
}

export function ReadOnlyPolicy({ scope, policy, effective, onEditAnyway }: Props) {
  const sections = summarizePolicy(policy?.content ?? {}, scope);
  return (
    <PolicyLayout
      scope={scope}
      policy={policy}
      effective={effective}
      notice={
        onEditAnyway ? (
          <Alert color="gray" icon={<IconFileText size={18} />} title={`Managed by ${policy?.managed_by}`}>
            <Stack gap="xs" align="flex-start">
              <Text size="sm">
                Edit the files and apply them again. Applying them overwrites changes made here.
              </Text>
              <Button size="xs" variant="default" onClick={onEditAnyway}>
                Edit anyway
              </Button>
            </Stack>
          </Alert>
        ) : (
          <Alert color="gray" icon={<IconLock size={18} />}>
            Only editors of {scope} can change this policy.
          </Alert>
        )
      }
    >
      <Card title="This policy">
        <PolicySummary sections={sections} />
        {sections.length === 0 && (
          <Text size="sm" c="dimmed">
            Empty. All settings are inherited.
          </Text>
        )}
      </Card>
    </PolicyLayout>
  );
}
