/** API requests to sign in and out. The session is an HttpOnly cookie, which scripts cannot read. */
import { useQuery } from "@tanstack/react-query";
import { client, unwrap } from "../../api/client";
import { isProblem } from "../../api/problems";
import { markSignedIn } from "../../api/sessions";

/** The server's sign-in methods. They do not change while the page is open. */
export function useSignInMethods() {
  return useQuery({
    queryKey: ["sign-in methods"],
    queryFn: () => unwrap(client.GET("/api/v1/sessions")),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

export async function signIn(token: string): Promise<void> {
  await client.POST("/api/v1/sessions", { body: { token } });
  markSignedIn();
}

export async function signOut(): Promise<void> {
  try {
    await client.DELETE("/api/v1/sessions");
  } catch (error) {
    // The session has already ended.
    if (!isProblem(error, "unauthenticated")) throw error;
  }
  // Reloads the page, so that none of the user's data stays in memory.
  window.location.assign("/sign-in");
}
