/** The frame around every page: header, navigation and account menu. */
import {
  ActionIcon,
  AppShell,
  Burger,
  Group,
  Menu,
  NavLink,
  ScrollArea,
  Text,
  Tooltip,
  UnstyledButton,
  useComputedColorScheme,
  useMantineColorScheme,
} from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { IconLogout, IconMoon, IconSun, IconUserCircle } from "@tabler/icons-react";
import { type ReactNode, useEffect } from "react";
import { Link, useLocation } from "wouter";
import { useMe } from "../api/currentUser";
import { useLiveRuns } from "../api/runEvents";
import { signOut } from "../features/sign-in/requests";
import { type Destination, NAVIGATION } from "./navigation";
import { notify } from "./notices";
import classes from "./Shell.module.css";

export function Shell({ children }: { children: ReactNode }) {
  useLiveRuns();
  const [isOpen, { toggle, close }] = useDisclosure();
  const [path] = useLocation();
  // On a narrow screen, the open navigation would cover the new page.
  useEffect(close, [path]);
  return (
    <AppShell
      header={{ height: 52 }}
      navbar={{ width: 216, breakpoint: "sm", collapsed: { mobile: !isOpen } }}
      classNames={{ header: classes.header, navbar: classes.navbar, main: classes.main }}
    >
      <a className="skip" href="#main">
        Skip to content
      </a>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={isOpen} onClick={toggle} hiddenFrom="sm" size="sm" aria-label="Navigation" />
            <Link href="/" className={classes.brand} aria-label="Fairlead, home">
              <img src="/favicon.svg" alt="" width={24} height={24} />
              <Text fw={650} size="md" component="span">
                Fairlead
              </Text>
            </Link>
          </Group>
          <Group gap="xs" wrap="nowrap">
            <SchemeToggle />
            <AccountMenu />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs" aria-label="Pages" component="nav">
        <ScrollArea type="never">
          {NAVIGATION.map((group) => (
            <div key={group.title} className={classes.group}>
              <Text size="xs" c="dimmed" fw={550} px="xs" pb={4}>
                {group.title}
              </Text>
              {group.destinations.map((destination) => (
                <NavLink
                  key={destination.path}
                  component={Link}
                  href={destination.path}
                  label={destination.title}
                  leftSection={<destination.icon size={17} stroke={1.6} />}
                  active={isActive(destination, path)}
                  aria-current={isActive(destination, path) ? "page" : undefined}
                  className={classes.link}
                />
              ))}
            </div>
          ))}
        </ScrollArea>
      </AppShell.Navbar>
      <AppShell.Main id="main">{children}</AppShell.Main>
    </AppShell>
  );
}

function isActive(destination: Destination, path: string): boolean {
  return path === destination.also || path === destination.path || path.startsWith(`${destination.path}/`);
}

function SchemeToggle() {
  const { setColorScheme } = useMantineColorScheme();
  const next = useComputedColorScheme("light") === "dark" ? "light" : "dark";
  const label = next === "dark" ? "Dark mode" : "Light mode";
  return (
    <Tooltip label={label}>
      <ActionIcon
        variant="subtle"
        color="gray"
        size="lg"
        aria-label={label}
        onClick={() => setColorScheme(next)}
      >
        {next === "dark" ? <IconMoon size={18} stroke={1.6} /> : <IconSun size={18} stroke={1.6} />}
      </ActionIcon>
    </Tooltip>
  );
}

function AccountMenu() {
  const me = useMe();
  if (!me.data) return null;
  const roles = me.data.roles.map((grant) => `${grant.role} of ${grant.scope}`);
  return (
    <Menu position="bottom-end" width={260} withInitialFocusPlaceholder={false}>
      <Menu.Target>
        <UnstyledButton className={classes.account} aria-label={`Account of ${me.data.user}`}>
          <IconUserCircle size={20} stroke={1.5} />
          <Text size="sm" visibleFrom="sm" component="span">
            {me.data.user}
          </Text>
        </UnstyledButton>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{roles.length > 0 ? roles.slice(0, 5).join(", ") : "No roles"}</Menu.Label>
        <Menu.Item component={Link} href="/tokens">
          Tokens
        </Menu.Item>
        <Menu.Item
          leftSection={<IconLogout size={16} />}
          onClick={() => signOut().catch(() => notify("Sign-out failed. You are still signed in."))}
        >
          Sign out
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
