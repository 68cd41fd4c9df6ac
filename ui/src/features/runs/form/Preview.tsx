/** Preview of a run: verdict, errors, warnings, resolved settings and manifests. */
import { Badge, Group, Loader, Stack, Tabs, Text } from "@mantine/core";
import type { Fit, Suggestion } from "../../../api/plans";
import type { Finding } from "../../../api/problems";
import { FitCard, showVerdict } from "../../../plans/FitCard";
import { Manifests } from "../../../plans/Manifests";
import { SettingList } from "../../../plans/SettingList";
import { ErrorCard } from "../../../shell/ErrorCard";
import { Card } from "../../../shell/Page";
import { FindingList, ProblemAlert } from "../../../shell/Problem";
import type { PreviewState } from "./previewState";

const NEVER_FITS = "never_fits";
/** The verdict for invalid requests, which the server cannot plan. */
const UNKNOWN: Fit = {
  verdict: "unknown",
  nodes: [],
  reasons: ["fix the errors first"],
  suggestions: [],
  counts: {},
};

interface Props {
  preview: PreviewState;
  findings: Finding[];
  /** The function name. Empty if none is selected. */
  name: string;
  onApply: (suggestion: Suggestion) => void;
}

export function Preview({ preview, findings, name, onApply }: Props) {
  const { plan, isCurrent } = preview;
  if (preview.error) {
    return <ProblemAlert error={preview.error} title="Preview unavailable" onRetry={preview.retry} />;
  }
  if (!plan && findings.length === 0) {
    return (
      <Card title="Preview">
        <Group gap="xs" role="status">
          <Loader size="xs" />
          <Text size="sm">Checking…</Text>
        </Group>
      </Card>
    );
  }
  // The verdict already shows that the run does not fit on any node.
  const others = findings.filter(({ rule }) => !(plan && rule === NEVER_FITS));
  const isRejected = others.length < findings.length;
  return (
    <Stack gap="sm" aria-busy={!isCurrent}>
      {plan && (
        <FitCard
          fit={preview.isUnknown ? UNKNOWN : plan.fit}
          onApply={onApply}
          isStale={!isCurrent}
          note={isRejected ? "This run would be rejected." : undefined}
        />
      )}
      {others.length > 0 && <ErrorCard findings={others} />}
      {plan && !preview.isUnknown && plan.warnings.length > 0 && (
        <Card title="Warnings" isStale={!isCurrent}>
          <FindingList findings={plan.warnings} />
        </Card>
      )}
      {plan && (
        <Card isStale={!isCurrent}>
          <Tabs defaultValue="configuration" keepMounted={false}>
            <Tabs.List mb="xs">
              <Tabs.Tab value="configuration">Configuration</Tabs.Tab>
              <Tabs.Tab value="manifests">Manifests</Tabs.Tab>
            </Tabs.List>
            <Tabs.Panel value="configuration">
              <SettingList settings={plan.settings} />
            </Tabs.Panel>
            <Tabs.Panel value="manifests">
              {name === "" || plan.manifests.length === 0 ? (
                <Text size="sm" c="dimmed">
                  {name === "" ? "Select a function to see manifests." : "Fix the errors to see manifests."}
                </Text>
              ) : (
                <Manifests manifests={plan.manifests} name={name} />
              )}
            </Tabs.Panel>
          </Tabs>
        </Card>
      )}
    </Stack>
  );
}

/** The verdict next to the submit button, for narrow screens that do not show the preview. */
export function VerdictBadge({ preview }: { preview: PreviewState }) {
  if (!preview.plan) return null;
  const { title, color } = showVerdict(preview.isUnknown ? UNKNOWN : preview.plan.fit);
  return (
    <Badge color={color} size="lg" hiddenFrom="md" style={{ opacity: preview.isCurrent ? 1 : 0.6 }}>
      {title}
    </Badge>
  );
}
