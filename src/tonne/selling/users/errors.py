"""What can go wrong around users and signing in."""

from tonne.platform.values.errors import Kind, TonneError


class SignInRefused(TonneError, kind=Kind.UNAUTHENTICATED, code="sign_in_refused"):
    # One message for an unknown address and a wrong password: strangers cannot learn who has an account.
    """The e-mail address or the password is wrong, or the user is disabled; the response does not say which.

    Try again, or reset the password.
    """

    message = "The e-mail address or the password is wrong. Check both, or reset your password."


class CodeRefused(TonneError, kind=Kind.UNAUTHENTICATED, code="code_refused"):
    """The code of the second factor is wrong or was used before.

    Enter the current code, or a recovery code.
    """

    message = "This code is wrong or was used before. Enter the current code of your app, or a recovery code."


class PasskeyRefused(TonneError, kind=Kind.UNAUTHENTICATED, code="passkey_refused"):
    """The passkey is not registered, belongs to another user, was used on another site, or its answer was used before.

    Try again, or sign in with the password.
    """

    message = "The passkey was not accepted. Try again, or sign in with your password."


class PasskeyInvalid(TonneError, kind=Kind.INVALID, code="passkey_invalid"):
    """A new passkey is registered already, or its answer is wrong or too late.

    Try again, or use another device.
    """

    message = "The passkey could not be added. Try again, or use another device."


class PasskeyNotFound(TonneError, kind=Kind.NOT_FOUND, code="passkey_not_found"):
    """The user has no such passkey.

    Reload the page.
    """

    message = "You have no such passkey. It may have been removed already."


class PasskeysUnavailable(TonneError, kind=Kind.CONFLICT, code="passkeys_unavailable"):
    """The service is at an IP address or not at https, where browsers accept no passkeys.

    Set `TONNE_PUBLIC_URL` to a name with https.
    """

    message = "Passkeys are not available at this address."


class SecondFactorNeeded(TonneError, kind=Kind.CONFLICT, code="second_factor_needed"):
    """An operator would remove the only second factor.

    Add another one first.
    """

    message = "Operators need a second factor. Add another passkey or an authenticator app before you remove this one."


class SignInTooOld(TonneError, kind=Kind.CONFLICT, code="sign_in_too_old"):
    """A passkey is added more than 30 minutes after the sign-in.

    Sign in again.
    """

    message = "You signed in more than 30 minutes ago. For this change, sign out and sign in again."


class PasswordInvalid(TonneError, kind=Kind.INVALID, code="password_invalid"):
    """A new password is too short, too long or easy to guess.

    Choose another one.
    """

    message = "Choose a password of at least 12 characters."


class UserNotFound(TonneError, kind=Kind.NOT_FOUND, code="user_not_found"):
    """There is no such user, or the user is not a member of the organisation.

    Run `tonne user list`.
    """

    message = "There is no user with this e-mail address."


class UserExists(TonneError, kind=Kind.CONFLICT, code="user_exists"):
    """A user is created with an address that is taken.

    Use `tonne user grant`.
    """

    message = "There is already a user with this e-mail address."


class LinkExpired(TonneError, kind=Kind.NOT_FOUND, code="user_link_expired"):
    """The link of an invitation or for a new password has expired or was used.

    Ask for a new one.
    """

    message = "This link has expired or was used before. Ask for a new one."


class RoleRefused(TonneError, kind=Kind.FORBIDDEN, code="role_refused"):
    """The member's role does not allow this page or change.

    Ask an owner or an admin of the organisation.
    """

    message = "Your role does not allow this. Ask an owner or an admin of your organisation."


class LastOwner(TonneError, kind=Kind.CONFLICT, code="last_owner"):
    """The only owner would be removed or lose the role.

    Make another member an owner first.
    """

    message = "An organisation needs an owner. Make another member an owner first."


class AlreadyMember(TonneError, kind=Kind.CONFLICT, code="already_member"):
    """Someone is invited who is already a member.

    Change the role instead.
    """

    message = "This person is already a member of the organisation."


class SecondPersonNeeded(TonneError, kind=Kind.CONFLICT, code="second_person_needed"):
    """A refund, return or write-off is approved by the person who requested it or counts as such, or a return that
    needs an approval is confirmed without one.

    Let another operator approve it in the browser.
    """

    message = "Another person must approve this: it goes to another account, or the amount is high."


class ApprovalNotAllowed(TonneError, kind=Kind.FORBIDDEN, code="approval_not_allowed"):
    """An operator without the right to approve, without a second factor or whose sign-in is older than 5 minutes
    approves something, or a personal token does where only the browser may.

    Sign in again with a second factor, or let an operator with the right approve it.
    """

    message = "You do not have the right to approve. Ask for it: `tonne user approver`."


class PersonalTokenNotFound(TonneError, kind=Kind.NOT_FOUND, code="personal_token_not_found"):
    """The user has no such personal token, or it was revoked before.

    Reload the page.
    """

    message = "You have no such token. It may have been revoked already."
