/** The quotas of a scope and their usage. */
import { Anchor, Group, Progress, Stack, Text } from "@mantine/core";
import { Link } from "wouter";
import type { Schemas } from "../../api/client";
import { useMay } from "../../api/currentUser";
import { useEffectivePolicy } from "../../api/policies";
import type { Scope } from "../../api/scopes";
import { policyAddress } from "../../shell/addresses";
import { Loading } from "../../shell/Loading";
import { Card } from "../../shell/Page";
import { ProblemAlert } from "../../shell/Problem";
import classes from "./Organization.module.css";
import { RESOURCES, type Resource, type Share, shareOf, showAmount, showQuota, showUsed } from "./quotas";

interface Props {
  record: Scope;
  onChoose: (scope: string) => void;
}

export function Quotas({ record, onChoose }: Props) {
  const policy = useEffectivePolicy(record.scope);
  const may = useMay();
  return (
    <Card
      title="Quotas"
      order={3}
      actions={
        <Anchor component={Link} href={policyAddress(record.scope)} fz="sm">
          {may("editor", record.scope) ? "Edit policy" : "View policy"}
        </Anchor>
      }
    >
      <ProblemAlert error={policy.error} onRetry={() => void policy.refetch()} />
      {policy.isPending && <Loading />}
      {policy.data && <QuotasView record={record} policy={policy.data} onChoose={onChoose} />}
    </Card>
  );
}

type Quota = Schemas["EffectiveQuota"];

interface ViewProps extends Props {
  policy: Pick<Schemas["EffectivePolicy"], "quotas" | "used">;
}

function QuotasView({ record, policy, onChoose }: ViewProps) {
  const own = policy.quotas.find((quota) => quota.scope === record.scope);
  const above = policy.quotas.filter((quota) => quota.scope !== record.scope).reverse();
  return (
    <>
      {own && <Bars quota={own} />}
      <Text size="sm" c="dimmed">
        {describeRest(record, policy.used, own)}
      </Text>
      {above.map((quota) => (
        <Stack key={quota.scope} gap="xs" mt={4}>
          <Text size="sm" component="div">
            Quota of{" "}
            <Anchor component="button" type="button" fz="sm" onClick={() => onChoose(quota.scope)}>
              {quota.scope}
            </Anchor>
            , shared by everything below
          </Text>
          <Bars quota={quota} />
        </Stack>
      ))}
    </>
  );
}

/** The usage of resources without a quota in this scope. */
function describeRest(record: Scope, used: Schemas["ScopeUsage"], own: Quota | undefined): string {
  const rest = RESOURCES.map(({ key }) => key).filter((key) => own?.[key] === undefined);
  const text = showUsed(used, rest);
  const where = record.kind === "project" ? "here" : "here and below";
  if (!own) return `No quota set. In use ${where}: ${text || "nothing"}.`;
  const counted = `Usage includes scheduled runs ${where}.`;
  return text ? `${counted} In use without a quota: ${text}.` : counted;
}

function Bars({ quota }: { quota: Quota }) {
  return (
    <div className={classes.bars}>
      {RESOURCES.map(({ key, title }) => {
        const most = quota[key];
        return most === undefined ? null : (
          <Bar
            key={key}
            resource={key}
            title={title}
            used={quota.used[key]}
            most={most}
            scope={quota.scope}
          />
        );
      })}
    </div>
  );
}

const STYLES: Record<Share["level"], { color: string; label: string; textColor?: string }> = {
  free: { color: "var(--mantine-primary-color-filled)", label: "" },
  near: {
    color: "orange.6",
    label: "nearly full",
    textColor: "light-dark(#a63c00, var(--mantine-color-orange-4))",
  },
  full: { color: "orange.6", label: "full", textColor: "light-dark(#a63c00, var(--mantine-color-orange-4))" },
  over: {
    color: "red.7",
    label: "over quota",
    textColor: "light-dark(var(--mantine-color-red-9), var(--mantine-color-red-4))",
  },
};

interface BarProps {
  resource: Resource;
  title: string;
  used: string | number;
  most: string | number;
  scope: string;
}

function Bar({ resource, title, used, most, scope }: BarProps) {
  const { share, level } = shareOf(used, most);
  const style = STYLES[level];
  const numbers = `${showAmount(resource, used, most)} of ${showQuota(resource, most)}`;
  return (
    <div>
      <Group justify="space-between" gap="xs" mb={4} wrap="nowrap">
        <Text size="sm">{title}</Text>
        <Text size="sm" className="number" ta="right">
          {numbers}
          {style.label && (
            <Text span size="sm" fw={550} c={style.textColor}>
              , {style.label}
            </Text>
          )}
        </Text>
      </Group>
      <Progress.Root size={8} radius="xl">
        <Progress.Section
          value={Math.min(100, share * 100)}
          color={style.color}
          withAria={false}
          role="meter"
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={Math.min(100, Math.round(share * 100))}
          aria-label={`${title} of ${scope}`}
          aria-valuetext={`${numbers}${style.label && `, ${style.label}`}`}
        />
      </Progress.Root>
    </div>
  );
}
