/** How pages are laid out that are no tables: what it is and what can be done, then cards, in one column or two. */
import { Anchor, Breadcrumbs, Group, Paper, Stack, Text, Title } from "@mantine/core";
import type { ComponentProps, ReactNode } from "react";
import { Link } from "wouter";
import classes from "./Page.module.css";

export interface HeadProps {
  title: string;
  /** A line or two on what it is. */
  about?: ReactNode;
  /** What is to be known at a glance, beside the title. */
  badges?: ReactNode;
  /** What can be done to it as a whole. */
  actions?: ReactNode;
}

export function Head({ title, about, badges, actions }: HeadProps) {
  return (
    <Group justify="space-between" align="flex-start">
      <title>{`${title} · Fairlead`}</title>
      <Stack gap={2} miw={0} maw="100%">
        <Group gap="xs">
          <Title order={1} maw="100%">
            {title}
          </Title>
          {badges}
        </Group>
        {about && (
          <Text size="sm" c="dimmed" component="div">
            {about}
          </Text>
        )}
      </Stack>
      {actions}
    </Group>
  );
}

interface PageProps extends HeadProps {
  /** The page that lists its like, and how this one is called there. */
  within?: { title: string; href: string; here: string };
  children?: ReactNode;
}

export function Page({ within, children, ...head }: PageProps) {
  return (
    <div className={classes.page}>
      {within && (
        <Breadcrumbs fz="sm">
          <Anchor component={Link} href={within.href} fz="sm">
            {within.title}
          </Anchor>
          <Text size="sm">{within.here}</Text>
        </Breadcrumbs>
      )}
      <Head {...head} />
      {children}
    </div>
  );
}

/** What is at the end of a form, and always in sight. */
export function Foot({ children }: { children: ReactNode }) {
  return (
    <Group justify="space-between" className={classes.foot}>
      {children}
    </Group>
  );
}

interface ColumnsProps {
  children: ReactNode;
  side: ReactNode;
  /** How the side is called. With a name, it stays in sight while one scrolls through the rest. */
  label?: string;
}

export function Columns({ children, side, label }: ColumnsProps) {
  return (
    <div className={classes.columns}>
      <Stack gap="md">{children}</Stack>
      {label ? (
        // Reached by the keyboard because it scrolls by itself.
        <aside className={classes.side} aria-label={label} tabIndex={0} data-sticky>
          {side}
        </aside>
      ) : (
        <div className={classes.side}>{side}</div>
      )}
    </div>
  );
}

interface CardProps extends Pick<ComponentProps<"section">, "id" | "role" | "aria-busy" | "children"> {
  title?: ReactNode;
  about?: ReactNode;
  actions?: ReactNode;
  /** 3 where the card belongs to something that has a title itself. */
  order?: 2 | 3;
  /** Whether what it says may be old by now. */
  isStale?: boolean;
}

export function Card({ title, about, actions, order = 2, isStale, children, ...paper }: CardProps) {
  return (
    <Paper
      withBorder
      component="section"
      aria-label={typeof title === "string" ? title : undefined}
      className={classes.card}
      data-stale={isStale || undefined}
      {...paper}
    >
      <Stack gap="sm">
        {title && (
          <Group justify="space-between">
            <div>
              <Title order={order}>{title}</Title>
              {about && (
                <Text size="sm" c="dimmed">
                  {about}
                </Text>
              )}
            </div>
            {actions}
          </Group>
        )}
        {children}
      </Stack>
    </Paper>
  );
}
