/** Layout of pages without a table: a header with actions, then cards in one or two columns. */
import { Anchor, Breadcrumbs, Group, Paper, Stack, Text, Title } from "@mantine/core";
import type { ComponentProps, ReactNode } from "react";
import { Link } from "wouter";
import classes from "./Page.module.css";

export interface HeadProps {
  title: string;
  /** A description below the title. */
  about?: ReactNode;
  /** Badges next to the title. */
  badges?: ReactNode;
  /** Buttons for the whole page. */
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
  /** The parent page, and this page's name in the breadcrumbs. */
  parent?: { title: string; href: string; name: string };
  children?: ReactNode;
}

export function Page({ parent, children, ...head }: PageProps) {
  return (
    <div className={classes.page}>
      {parent && (
        <Breadcrumbs fz="sm">
          <Anchor component={Link} href={parent.href} fz="sm">
            {parent.title}
          </Anchor>
          <Text size="sm">{parent.name}</Text>
        </Breadcrumbs>
      )}
      <Head {...head} />
      {children}
    </div>
  );
}

/** The sticky footer of a form. */
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
  /** The accessible name of the sidebar. A sidebar with a name is sticky. */
  label?: string;
}

export function Columns({ children, side, label }: ColumnsProps) {
  return (
    <div className={classes.columns}>
      <Stack gap="md">{children}</Stack>
      {label ? (
        // Focusable, so that it can be scrolled with the keyboard.
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
  /** The heading level: 3 if the card is inside a titled section. */
  order?: 2 | 3;
  /** Whether the content may be outdated. */
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
