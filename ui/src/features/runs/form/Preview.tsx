/** What would run: whether it fits, what is wrong, and every value with who set it. */
import { Badge, Group, Loader, Stack, Tabs, Text } from "@mantine/core";
import type { Fit, Suggestion } from "../../../api/plans";
import type { Finding } from "../../../api/problems";
import { FitCard, lookOf } from "../../../plans/FitCard";
import { Manifests } from "../../../plans/Manifests";
import { Values } from "../../../plans/Values";
import { ErrorCard } from "../../../shell/ErrorCard";
import { Card } from "../../../shell/Page";
import { FindingList, ProblemAlert } from "../../../shell/Problem";
import type { Look } from "./looks";

const NEVER_FITS = "never_fits";
/** Of what cannot be read nobody can say whether it fits. */
const UNKNOWN: Fit = {
  verdict: "unknown",
  nodes: [],
  reasons: ["mend what is wrong first"],
  suggestions: [],
  counts: {},
};

interface Props {
  look: Look;
  findings: Finding[];
  /** What the function is called; empty while none is chosen. */
  name: string;
  onTake: (way: Suggestion) => void;
}

export function Preview({ look, findings, name, onTake }: Props) {
  const { plan, isCurrent } = look;
  if (look.error) {
    return <ProblemAlert error={look.error} title="What would run cannot be told" onRetry={look.retry} />;
  }
  if (!plan && findings.length === 0) {
    return (
      <Card title="What would run">
        <Group gap="xs" role="status">
          <Loader size="xs" />
          <Text size="sm">Looking…</Text>
        </Group>
      </Card>
    );
  }
  // What no node could ever take, the verdict says with the same words.
  const others = findings.filter((found) => !(plan && found.rule === NEVER_FITS));
  const isRefused = others.length < findings.length;
  return (
    <Stack gap="sm" aria-busy={!isCurrent}>
      {plan && (
        <FitCard
          fit={look.isUnknown ? UNKNOWN : plan.fit}
          onTake={onTake}
          isStale={!isCurrent}
          note={isRefused ? "It would be refused as it is." : undefined}
        />
      )}
      {others.length > 0 && <ErrorCard findings={others} />}
      {plan && !look.isUnknown && plan.warnings.length > 0 && (
        <Card title="Worth knowing" isStale={!isCurrent}>
          <FindingList findings={plan.warnings} />
        </Card>
      )}
      {plan && (
        <Card isStale={!isCurrent}>
          <Tabs defaultValue="values" keepMounted={false}>
            <Tabs.List mb="xs">
              <Tabs.Tab value="values">What runs</Tabs.Tab>
              <Tabs.Tab value="manifests">Manifests</Tabs.Tab>
            </Tabs.List>
            <Tabs.Panel value="values">
              <Values settings={plan.settings} />
            </Tabs.Panel>
            <Tabs.Panel value="manifests">
              {name === "" || plan.manifests.length === 0 ? (
                <Text size="sm" c="dimmed">
                  {name === ""
                    ? "Choose a function to see them."
                    : "There are none as long as something is wrong."}
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

/** The verdict beside the button, where the preview is out of sight. */
export function VerdictBadge({ look }: { look: Look }) {
  if (!look.plan) return null;
  const { title, color } = lookOf(look.isUnknown ? UNKNOWN : look.plan.fit);
  return (
    <Badge color={color} size="lg" hiddenFrom="md" style={{ opacity: look.isCurrent ? 1 : 0.6 }}>
      {title}
    </Badge>
  );
}
