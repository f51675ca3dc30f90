/* SPDX-License-Identifier: MIT */
#ifndef BASE_STANDARD_FILES_H
#define BASE_STANDARD_FILES_H
/* Call first in main(). A standard file (0 to 2) that was closed is opened so that reading or writing it
 * fails. Otherwise the first connection gets its number, and what is printed or logged is sent over that. */
void standard_files_fill(void);
#endif
